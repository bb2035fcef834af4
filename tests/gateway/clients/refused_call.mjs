// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// One call of an official Node client, with its own retries; its pauses are recorded and not slept. Prints JSON with the
// status and message that the application sees, and the pauses in seconds. retry_test.py checks it.
//
//   node refused_call.mjs openai-node|anthropic-node BASE_URL KEY QUESTION     AFTERIMAGE_CLIENTS: the folder of install_clients.py
import { createRequire } from 'node:module';
const require = createRequire(process.env.AFTERIMAGE_CLIENTS + '/node/');

const [which, baseURL, apiKey, question] = process.argv.slice(2);
const pauses = [];
const timer = globalThis.setTimeout;
globalThis.setTimeout = (done, ms, ...more) => {
  // Both clients pause in their sleep.js; other timers are those of requests and connections.
  if (!new Error().stack.includes('utils/sleep.js')) return timer(done, ms, ...more);
  pauses.push(ms / 1000);
  return timer(done, 1, ...more);
};
const asked = { model: 'mock-small', max_tokens: 8, messages: [{ role: 'user', content: question }] };
try {
  if (which === 'openai-node') {
    const { OpenAI } = require('openai');
    await new OpenAI({ baseURL, apiKey }).chat.completions.create(asked);
  } else {
    const { Anthropic } = require('@anthropic-ai/sdk');
    await new Anthropic({ baseURL: baseURL.replace(/\/v1$/, ''), apiKey }).messages.create(asked);
  }
  console.log(JSON.stringify({ status: 200, slept: pauses }));
} catch (error) {
  console.log(JSON.stringify({ status: error.status, message: error.message, slept: pauses }));
}
