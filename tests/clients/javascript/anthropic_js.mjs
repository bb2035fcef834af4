// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// package: @anthropic-ai/sdk
import Anthropic from '@anthropic-ai/sdk';
import {CITY, PICTURE, QUESTION, WEATHER, run} from './cases.mjs';

const TOOLS = [{name: 'weather', input_schema: CITY}];
const messages = (url, key) => new Anthropic({baseURL: url, apiKey: key}).messages;
const user = (content) => ({model: 'm', max_tokens: 100, messages: [{role: 'user', content}]});
const said = (message) => message.content[0].text;

await run({
  chat: async (url, key) => said(await messages(url, key).create(user(QUESTION))),
  stream: async (url, key) => said(await messages(url, key).stream(user(QUESTION)).finalMessage()),
  image: async (url, key) => {
    const source = {type: 'base64', media_type: 'image/png', data: PICTURE};
    return said(await messages(url, key).create(user([{type: 'image', source}, {type: 'text', text: QUESTION}])));
  },
  tools: async (url, key) => {
    const request = {...user(WEATHER), tools: TOOLS};
    const called = await messages(url, key).create(request);
    const call = called.content.find((block) => block.type === 'tool_use');
    const result = {type: 'tool_result', tool_use_id: call.id, content: '21 degrees'};
    request.messages.push({role: 'assistant', content: called.content}, {role: 'user', content: [result]});
    return said(await messages(url, key).create(request));
  },
});
