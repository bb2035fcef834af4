// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// Uses the official OpenAI and Anthropic clients for Node: one question with a picture over three APIs, tools, files, and
// what is refused. Prints JSON; protocols_test.py checks it.
//
//   node every_protocol.mjs BASE_URL MODEL PICTURE     AFTERIMAGE_CLIENTS: the folder of install_clients.py
import { createRequire } from 'node:module';
const require = createRequire(process.env.AFTERIMAGE_CLIENTS + '/node/');
const { OpenAI, toFile } = require('openai');
const Anthropic = require('@anthropic-ai/sdk').default;

const [baseURL, model, picture] = process.argv.slice(2);
const openai = new OpenAI({ baseURL, apiKey: 'node-key', maxRetries: 0, timeout: 60000 });
const claude = new Anthropic({ baseURL: baseURL.replace(/\/v1$/, ''), apiKey: 'node-key', maxRetries: 0, timeout: 60000 });
const text = 'Node, with a picture.';
const data = picture.split(',')[1];
const message = { model, max_tokens: 64, temperature: 0, messages: [{ role: 'user', content: [
  { type: 'text', text }, { type: 'image', source: { type: 'base64', media_type: 'image/png', data } }] }] };
const schema = { type: 'object', properties: { city: { type: 'string' } } };
const found = {};

const file = await openai.files.create({ file: await toFile(Buffer.from(data, 'base64'), 'a.png'), purpose: 'vision' });
found.file_type = (await claude.files.retrieveMetadata(file.id)).mime_type;
const response = { model, temperature: 0, max_output_tokens: 64, input: [{ role: 'user', content: [
  { type: 'input_text', text }, { type: 'input_image', file_id: file.id, detail: 'auto' }] }] };

found.message = (await claude.messages.create(message)).content[0].text;
found.message_stream = (await claude.messages.stream(message).finalMessage()).content[0].text;
found.response = (await openai.responses.create(response)).output_text;
found.response_stream = (await openai.responses.stream(response).finalResponse()).output_text;
found.chat = (await openai.chat.completions.create({ model, temperature: 0, max_tokens: 64, messages: [{ role: 'user', content: [
  { type: 'text', text }, { type: 'image_url', image_url: { url: picture } }] }] })).choices[0].message.content;

found.tools = await claude.messages.stream({ ...message, messages: [{ role: 'user', content: 'Which sky is over Node?' }],
                                             tools: [{ name: 'weather', input_schema: schema }] }).finalMessage();
found.function = await openai.responses.create({ model, temperature: 0, input: 'Which sky is over Node?', tools: [
  { type: 'function', name: 'weather', parameters: schema, strict: false }] });
found.count_status = await claude.messages.countTokens({ model, messages: message.messages }).then(() => 200, (error) => error.status);
found.refused = await claude.messages.create({ ...message, tools: [{ type: 'bash_20250124', name: 'bash' }] })
  .then(() => null, (error) => ({ error: error.constructor.name, message: error.message }));
console.log(JSON.stringify(found));
