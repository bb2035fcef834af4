// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// The cases of the AI SDK; its providers differ in the requests that they send.
import {Output, generateText, stepCountIs, streamText, tool} from 'ai';
import {z} from 'zod';
import {PICTURE, QUESTION, WEATHER, joined, run} from './cases.mjs';

const weather = tool({
  description: 'How warm it is in a city', inputSchema: z.object({city: z.string()}), execute: async () => '21 degrees',
});

export const cases = (model) => run({
  chat: async (url, key) => (await generateText({model: model(url, key), prompt: QUESTION})).text,
  stream: (url, key) => joined(streamText({model: model(url, key), prompt: QUESTION}).textStream),
  image: async (url, key) => {
    const content = [{type: 'text', text: QUESTION}, {type: 'image', image: PICTURE, mediaType: 'image/png'}];
    return (await generateText({model: model(url, key), messages: [{role: 'user', content}]})).text;
  },
  tools: async (url, key) => (await generateText(
    {model: model(url, key), prompt: WEATHER, tools: {weather}, stopWhen: stepCountIs(3)})).text,
  schema: async (url, key) => {
    const output = Output.object({schema: z.object({name: z.string()})});
    return (await generateText({model: model(url, key), prompt: QUESTION, output})).output.name;
  },
});
