// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Afterimage authors
import com.openai.client.OpenAIClient;
import com.openai.client.okhttp.OpenAIOkHttpClient;
import com.openai.models.chat.completions.*;
import java.util.List;
import java.util.Map;

/** The official Java client: cases, or CASE URL KEY; URL ends before /v1. */
public class OpenAiJava {
  static final String QUESTION = "What is the capital of Italy? Answer in one word.";
  static final String WEATHER = "How warm is it in Rome? Use the tool.";
  static final String PICTURE =
      "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAEElEQVR42mP4z8AARAwQCgAf7gP9Y167WwAAAABJRU5ErkJggg==";

  public static class City {
    public String name;
  }

  @com.fasterxml.jackson.annotation.JsonClassDescription("How warm it is in a city")
  @com.fasterxml.jackson.annotation.JsonTypeName("weather")
  public static class Weather {
    public String city;
  }

  static ChatCompletionCreateParams.Builder asked(String text) {
    return ChatCompletionCreateParams.builder().model("m").addUserMessage(text);
  }

  static ChatCompletionMessage ask(OpenAIClient client, ChatCompletionCreateParams params) {
    return client.chat().completions().create(params).choices().get(0).message();
  }

  static String stream(OpenAIClient client) {
    StringBuilder text = new StringBuilder();
    try (var events = client.chat().completions().createStreaming(asked(QUESTION).build())) {
      events.stream().flatMap(chunk -> chunk.choices().stream()).forEach(choice -> choice.delta().content().ifPresent(text::append));
    }
    return text.toString();
  }

  static String image(OpenAIClient client) {
    var picture = ChatCompletionContentPartImage.builder()
        .imageUrl(ChatCompletionContentPartImage.ImageUrl.builder().url(PICTURE).build()).build();
    var text = ChatCompletionContentPartText.builder().text(QUESTION).build();
    var params = ChatCompletionCreateParams.builder().model("m").addUserMessageOfArrayOfContentParts(
        List.of(ChatCompletionContentPart.ofText(text), ChatCompletionContentPart.ofImageUrl(picture)));
    return ask(client, params.build()).content().get();
  }

  static String tools(OpenAIClient client) {
    var params = asked(WEATHER).addTool(Weather.class);
    ChatCompletionMessage called = ask(client, params.build());
    String id = called.toolCalls().get().get(0).asFunction().id();
    params.addMessage(called).addMessage(ChatCompletionToolMessageParam.builder().toolCallId(id).content("21 degrees").build());
    return ask(client, params.build()).content().get();
  }

  static String schema(OpenAIClient client) {
    var params = asked(QUESTION).responseFormat(City.class).build();
    return client.chat().completions().create(params).choices().get(0).message().content().get().name;
  }

  public static void main(String[] arguments) {
    if (arguments[0].equals("cases")) {
      System.out.println("[\"chat\", \"stream\", \"image\", \"tools\", \"schema\"]");
      return;
    }
    OpenAIClient client = OpenAIOkHttpClient.builder().baseUrl(arguments[1] + "/v1").apiKey(arguments[2]).build();
    String answer = switch (arguments[0]) {
      case "chat" -> ask(client, asked(QUESTION).build()).content().get();
      case "stream" -> stream(client);
      case "image" -> image(client);
      case "tools" -> tools(client);
      default -> schema(client);
    };
    if (!answer.contains("Rome")) throw new IllegalStateException("answered " + answer);
    System.out.println(answer);
    System.exit(0);  // its threads for connections live on
  }
}
