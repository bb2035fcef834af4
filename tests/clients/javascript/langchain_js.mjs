// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// package: @langchain/openai
import {HumanMessage, ToolMessage} from '@langchain/core/messages';
import {tool} from '@langchain/core/tools';
import {ChatOpenAI} from '@langchain/openai';
import {z} from 'zod';
import {PICTURE_URL, QUESTION, WEATHER, run} from './cases.mjs';

const model = (url, apiKey) => new ChatOpenAI({model: 'm', apiKey, configuration: {baseURL: `${url}/v1`}});
const weather = tool(async () => '21 degrees', {
  name: 'weather', description: 'How warm it is in a city', schema: z.object({city: z.string()}),
});

await run({
  chat: async (url, key) => (await model(url, key).invoke(QUESTION)).content,
  stream: async (url, key) => {
    let text = '';
    for await (const piece of await model(url, key).stream(QUESTION)) text += piece.content;
    return text;
  },
  image: async (url, key) => {
    const content = [{type: 'text', text: QUESTION}, {type: 'image_url', image_url: {url: PICTURE_URL}}];
    return (await model(url, key).invoke([new HumanMessage({content})])).content;
  },
  tools: async (url, key) => {
    const bound = model(url, key).bindTools([weather]);
    const asked = new HumanMessage(WEATHER);
    const called = await bound.invoke([asked]);
    const [call] = called.tool_calls;
    return (await bound.invoke([asked, called, new ToolMessage({content: '21 degrees', tool_call_id: call.id})])).content;
  },
  schema: async (url, key) => (await model(url, key).withStructuredOutput(z.object({name: z.string()})).invoke(QUESTION)).name,
});
