// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// package: openai
import OpenAI from 'openai';
import {zodResponseFormat} from 'openai/helpers/zod';
import {z} from 'zod';
import {CITY, PICTURE_URL, QUESTION, WEATHER, run} from './cases.mjs';

const TOOLS = [{type: 'function', function: {name: 'weather', parameters: CITY}}];
const chats = (url, key) => new OpenAI({baseURL: `${url}/v1`, apiKey: key}).chat.completions;
const user = (content) => ({model: 'm', messages: [{role: 'user', content}]});
const said = (completion) => completion.choices[0].message.content;

await run({
  chat: async (url, key) => said(await chats(url, key).create(user(QUESTION))),
  stream: async (url, key) => {
    let text = '';
    for await (const chunk of await chats(url, key).create({...user(QUESTION), stream: true})) {
      text += chunk.choices[0]?.delta.content ?? '';
    }
    return text;
  },
  image: async (url, key) => said(await chats(url, key).create(
    user([{type: 'text', text: QUESTION}, {type: 'image_url', image_url: {url: PICTURE_URL}}]))),
  tools: async (url, key) => {
    const request = {...user(WEATHER), tools: TOOLS};
    const called = (await chats(url, key).create(request)).choices[0].message;
    request.messages.push(called, {role: 'tool', tool_call_id: called.tool_calls[0].id, content: '21 degrees'});
    return said(await chats(url, key).create(request));
  },
  schema: async (url, key) => {
    const format = zodResponseFormat(z.object({name: z.string()}), 'city');
    return (await chats(url, key).parse({...user(QUESTION), response_format: format})).choices[0].message.parsed.name;
  },
});
