// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
//
// Uses the official Node client like an application: each call twice. Prints JSON with the result and X-Cache of each
// call, and the class, status and code of each error. clients_test.py checks it.
//
//   node every_call.mjs BASE_URL MODEL PICTURE     AFTERIMAGE_CLIENTS: the folder of install_clients.py
import { createRequire } from 'node:module';
const { OpenAI } = createRequire(process.env.AFTERIMAGE_CLIENTS + '/node/')('openai');

const [baseURL, model, picture] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: 'node-key', maxRetries: 0, timeout: 60000 });
const asked = (text, more = {}) =>
  ({ model, temperature: 0, max_tokens: 8, messages: [{ role: 'user', content: text }], ...more });
const seen = [{ type: 'text', text: 'What does Node see?' }, { type: 'image_url', image_url: { url: picture } }];
const tools = [{ type: 'function', function: { name: 'weather', description: 'of a city',
                                               parameters: { type: 'object', properties: { city: { type: 'string' } } } } }];
const chat = (body) => () => client.chat.completions.create(body).withResponse();

const calls = {
  chat: chat(asked('Node asks.')),
  chat_stream: chat(asked('Node asks for a stream.', { stream: true })),
  chat_stream_usage: chat(asked('Node asks what it costs.', { stream: true, stream_options: { include_usage: true } })),
  picture: chat(asked(seen)),
  picture_stream: chat(asked([...seen, seen[1]], { stream: true })),
  tools: chat(asked('Which sky is over Node?', { tools })),
  tools_stream: chat(asked('Which sky streams over Node?', { tools, stream: true })),
  completion: () => client.completions.create({ model, temperature: 0, max_tokens: 8, prompt: 'Once upon a node' }).withResponse(),
  embedding: () => client.embeddings.create({ model: 'mock-embed', input: ['node', 'edge'] }).withResponse(),
  embedding_floats:
    () => client.embeddings.create({ model: 'mock-embed', input: 'node', encoding_format: 'float' }).withResponse(),
  models: () => client.models.list().withResponse(),
};
const errors = {
  model_not_found: chat(asked('Who are you?', { model: 'no-such-model' })),
  bad_request: chat(asked('#status=400 for Node')),
  unauthorized: chat(asked('#status=401 for Node')),
  too_many: chat(asked('#status=429 for Node')),
  tired: chat(asked('#status=500 for Node')),
  nowhere: () => client.get('/nowhere'),
  broken_stream: chat(asked('#error-event for Node', { stream: true })),
};

async function told({ data, response }) {
  const cache = response.headers.get('x-cache');
  if (data.data !== undefined) return { cache, given: { data: data.data, usage: data.usage, model: data.model } };
  if (!(Symbol.asyncIterator in data)) return { cache, given: data };
  const given = [];
  for await (const event of data) given.push(event);
  return { cache, given };
}

const found = {};
for (const [name, call] of Object.entries(calls)) {
  found[name] = [];
  for (let time = 0; time < 2; ++time) {
    found[name].push(await call().then(told).catch((e) => ({ error: e.constructor.name, status: e.status, message: e.message })));
  }
}
for (const [name, call] of Object.entries(errors)) {
  found[name] = await call().then((r) => told(r)).then((r) => ({ none: r }))
    .catch((e) => ({ error: e.constructor.name, status: e.status, code: e.code, type: e.type }));
}
found.accumulated = await client.chat.completions.stream(asked('Node adds up.')).finalChatCompletion()
  .then((r) => r.choices[0].message.content);
console.log(JSON.stringify(found));
