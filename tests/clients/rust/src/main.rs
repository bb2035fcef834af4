// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors

//! Rust's most used client: main cases, or main CASE URL KEY; URL ends before /v1.
use async_openai::{config::OpenAIConfig, types::chat::*, Client};
use futures::StreamExt;
use serde_json::json;

type Outcome = Result<String, Box<dyn std::error::Error>>;

const QUESTION: &str = "What is the capital of Italy? Answer in one word.";
const WEATHER: &str = "How warm is it in Rome? Use the tool.";
const PICTURE: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR42mP4z8AARAwQCgAf7gP9Y167WwAAAABJRU5ErkJggg==";

fn object(name: &str) -> serde_json::Value {
    json!({"type": "object", "properties": {name: {"type": "string"}}, "required": [name], "additionalProperties": false})
}

/// A request from the JSON of its messages and further fields.
fn asked(messages: serde_json::Value, more: serde_json::Value) -> Result<CreateChatCompletionRequest, serde_json::Error> {
    let mut request = json!({"model": "m", "messages": messages});
    for (name, value) in more.as_object().unwrap() {
        request[name] = value.clone();
    }
    serde_json::from_value(request)
}

fn user(content: serde_json::Value) -> serde_json::Value {
    json!({"role": "user", "content": content})
}

async fn ask(client: &Client<OpenAIConfig>, request: CreateChatCompletionRequest) -> Outcome {
    let response = client.chat().create(request).await?;
    Ok(response.choices[0].message.content.clone().unwrap_or_default())
}

async fn stream(client: &Client<OpenAIConfig>) -> Outcome {
    let mut events = client.chat().create_stream(asked(json!([user(json!(QUESTION))]), json!({}))?).await?;
    let mut text = String::new();
    while let Some(event) = events.next().await {
        for choice in event?.choices {
            text += &choice.delta.content.unwrap_or_default();
        }
    }
    Ok(text)
}

async fn tools(client: &Client<OpenAIConfig>) -> Outcome {
    let tools = json!([{"type": "function", "function": {"name": "weather", "parameters": object("city")}}]);
    let asked_first = user(json!(WEATHER));
    let called = client.chat().create(asked(json!([asked_first]), json!({"tools": tools}))?).await?;
    let calls = serde_json::to_value(&called.choices[0].message.tool_calls)?;
    let result = json!({"role": "tool", "tool_call_id": calls[0]["id"], "content": "21 degrees"});
    let messages = json!([asked_first, {"role": "assistant", "tool_calls": calls}, result]);
    ask(client, asked(messages, json!({"tools": tools}))?).await
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments[1] == "cases" {
        println!("{}", json!(["chat", "stream", "image", "tools", "schema"]));
        return Ok(());
    }
    let config = OpenAIConfig::new().with_api_base(format!("{}/v1", arguments[2])).with_api_key(&arguments[3]);
    let client = Client::with_config(config);
    let answer = match arguments[1].as_str() {
        "chat" => ask(&client, asked(json!([user(json!(QUESTION))]), json!({}))?).await?,
        "stream" => stream(&client).await?,
        "image" => {
            let parts = json!([{"type": "text", "text": QUESTION}, {"type": "image_url", "image_url": {"url": PICTURE}}]);
            ask(&client, asked(json!([user(parts)]), json!({}))?).await?
        }
        "tools" => tools(&client).await?,
        _ => {
            let format = json!({"type": "json_schema", "json_schema": {"name": "city", "schema": object("name"), "strict": true}});
            ask(&client, asked(json!([user(json!(QUESTION))]), json!({"response_format": format}))?).await?
        }
    };
    if !answer.contains("Rome") {
        return Err(format!("answered {answer:?}").into());
    }
    println!("{answer}");
    Ok(())
}
