// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// package: @ai-sdk/openai-compatible
import {createOpenAICompatible} from '@ai-sdk/openai-compatible';
import {cases} from './ai_sdk_cases.mjs';

await cases((url, apiKey) => createOpenAICompatible(
  {name: 'local', baseURL: `${url}/v1`, apiKey, supportsStructuredOutputs: true})('m'));
