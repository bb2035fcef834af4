// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
// What the scripts of the clients have in common: each ends with run({chat, stream, …}).
export const QUESTION = 'What is the capital of Italy? Answer in one word.';
export const WEATHER = 'How warm is it in Rome? Use the tool.';
export const PICTURE =
  'iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR42mP4z8AARAwQCgAf7gP9Y167WwAAAABJRU5ErkJggg==';
export const PICTURE_URL = `data:image/png;base64,${PICTURE}`;
export const CITY = {
  type: 'object', properties: {city: {type: 'string'}}, required: ['city'], additionalProperties: false,
};

/** "cases": prints the cases there are. CASE URL KEY: runs one; URL ends before /v1. */
export async function run(cases) {
  const [which, url, key] = process.argv.slice(2);
  if (which === 'cases') return console.log(JSON.stringify(Object.keys(cases)));
  const answer = await cases[which](url, key);
  if (!String(answer).includes('Rome')) throw new Error(`answered ${JSON.stringify(answer)}`);
  console.log(answer);
}

export async function joined(pieces) {
  let text = '';
  for await (const piece of pieces) text += piece ?? '';
  return text;
}
