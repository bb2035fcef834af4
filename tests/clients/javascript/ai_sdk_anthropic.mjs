// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// package: @ai-sdk/anthropic
import {createAnthropic} from '@ai-sdk/anthropic';
import {cases} from './ai_sdk_cases.mjs';

await cases((url, apiKey) => createAnthropic({baseURL: `${url}/v1`, apiKey})('m'));
