// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

// The official Go client: main cases, or main CASE URL KEY; URL ends before /v1.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"
)

const (
	question = "What is the capital of Italy? Answer in one word."
	weather  = "How warm is it in Rome? Use the tool."
	picture  = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR42mP4z8AARAwQCgAf7gP9Y167WwAAAABJRU5ErkJggg=="
)

func object(name string) map[string]any {
	return map[string]any{"type": "object", "properties": map[string]any{name: map[string]any{"type": "string"}},
		"required": []string{name}, "additionalProperties": false}
}

func asked(text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}}
}

func ask(client openai.Client, params openai.ChatCompletionNewParams) openai.ChatCompletionMessage {
	completion, err := client.Chat.Completions.New(context.Background(), params)
	if err != nil {
		log.Fatal(err)
	}
	return completion.Choices[0].Message
}

func stream(client openai.Client) string {
	events := client.Chat.Completions.NewStreaming(context.Background(), asked(question))
	var text strings.Builder
	for events.Next() {
		for _, choice := range events.Current().Choices {
			text.WriteString(choice.Delta.Content)
		}
	}
	if err := events.Err(); err != nil {
		log.Fatal(err)
	}
	return text.String()
}

func image(client openai.Client) string {
	params := asked("")
	params.Messages = []openai.ChatCompletionMessageParamUnion{openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{
		openai.TextContentPart(question),
		openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: picture}),
	})}
	return ask(client, params).Content
}

func tools(client openai.Client) string {
	params := asked(weather)
	params.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(
		shared.FunctionDefinitionParam{Name: "weather", Parameters: object("city")})}
	called := ask(client, params)
	params.Messages = append(params.Messages, called.ToParam(), openai.ToolMessage("21 degrees", called.ToolCalls[0].ID))
	return ask(client, params).Content
}

func schema(client openai.Client) string {
	params := asked(question)
	params.ResponseFormat = openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{
		JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "city", Schema: object("name"), Strict: openai.Bool(true)}}}
	return ask(client, params).Content
}

func main() {
	cases := map[string]func(openai.Client) string{
		"chat":   func(client openai.Client) string { return ask(client, asked(question)).Content },
		"stream": stream, "image": image, "tools": tools, "schema": schema,
	}
	if os.Args[1] == "cases" {
		names, _ := json.Marshal([]string{"chat", "stream", "image", "tools", "schema"})
		fmt.Println(string(names))
		return
	}
	client := openai.NewClient(option.WithBaseURL(os.Args[2]+"/v1"), option.WithAPIKey(os.Args[3]))
	answer := cases[os.Args[1]](client)
	if !strings.Contains(answer, "Rome") {
		log.Fatalf("answered %q", answer)
	}
	fmt.Println(answer)
}
