// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// Uses the official Node client like an application, with all that --engine llama takes. Prints the results as JSON;
// clients_test.py checks it.
//
//   node every_feature.mjs BASE_URL MODEL BIAS     AFTERIMAGE_CLIENTS: the folder of install_clients.py
// BIAS: the logit_bias with which the model calls a tool.
import { createRequire } from 'node:module';
const { OpenAI } = createRequire(process.env.AFTERIMAGE_CLIENTS + '/node/')('openai');

const [baseURL, model, bias] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: 'node-key', maxRetries: 0, timeout: 60000 });
const asked = (more = {}) =>
  ({ model, temperature: 0.7, seed: 1, max_tokens: 200, messages: [{ role: 'user', content: 'the river' }], ...more });
const chat = (more) => client.chat.completions.create(asked(more));
const tools = [{ type: 'function', function: { name: 'lamp', description: 'Switches a lamp.',
  parameters: { type: 'object', properties: { on: { type: 'boolean' } }, required: ['on'], additionalProperties: false } } }];
const schema = { type: 'object', properties: { colour: { enum: ['red', 'blue'] } }, required: ['colour'], additionalProperties: false };

const found = {};
found.sampled = await chat({ max_tokens: 8 });
found.choices = await chat({ n: 2, max_tokens: 8 });
found.logprobs = await chat({ logprobs: true, top_logprobs: 2, max_tokens: 4 });
found.stop = await chat({ stop: [found.sampled.choices[0].message.content.slice(2, 4)], max_tokens: 8 });
found.schema = await chat({ response_format: { type: 'json_schema', json_schema: { name: 'c', schema } } });
found.stream = [];
for await (const event of await chat({ max_tokens: 8, stream: true, stream_options: { include_usage: true } })) {
  found.stream.push(event);
}
found.call = await chat({ tools, tool_choice: 'required', logit_bias: JSON.parse(bias) });
const message = found.call.choices[0].message;
found.after_call = await chat({ tools, max_tokens: 8, messages: [
  ...asked().messages, message, { role: 'tool', tool_call_id: message.tool_calls[0].id, content: 'it is on' }] });
found.embedding = await client.embeddings.create({ model, input: ['the river', 'the stone'] });
console.log(JSON.stringify(found));
