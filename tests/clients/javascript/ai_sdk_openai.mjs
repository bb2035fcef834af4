// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// package: @ai-sdk/openai
import {createOpenAI} from '@ai-sdk/openai';
import {cases} from './ai_sdk_cases.mjs';

await cases((url, apiKey) => createOpenAI({baseURL: `${url}/v1`, apiKey})('m'));
