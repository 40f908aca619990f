// What a program does with OpenAI's SDK, against the server at BASE_URL; prints what came of it.
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: "not-needed", maxRetries: 0 });
const ask = { model: "kokoro", voice: "af_heart", input: "One two." };

const formats = {};
for (const response_format of ["mp3", "opus", "aac", "flac", "wav", "pcm"]) {
  const response = await client.audio.speech.create({ ...ask, response_format });
  const sound = Buffer.from(await response.arrayBuffer());
  formats[response_format] = {
    type: response.headers.get("content-type"),
    sound: sound.toString("base64"),
  };
}

// piece by piece
const streamed = await client.audio.speech.create({ ...ask, response_format: "pcm" });
let pieces = 0;
let bytes = 0;
for await (const piece of streamed.body) {
  pieces += 1;
  bytes += piece.length;
}

const events = await client.audio.speech.create({ ...ask, stream_format: "sse" });
const types = (await events.text())
  .split("\n\n")
  .filter(Boolean)
  .map((event) => JSON.parse(event.slice("data: ".length)).type);

const models = [];
for await (const model of client.models.list()) models.push(model.id);

let error;
try {
  await client.audio.speech.create({ ...ask, voice: "af_nobody" });
} catch (failure) {
  error = {
    kind: failure.constructor.name,
    status: failure.status,
    code: failure.code,
    param: failure.param,
    request: failure.requestID,
  };
}

// a client that leaves in the middle
const leaving = new AbortController();
const left = await client.audio.speech.create(
  { ...ask, input: "word. ".repeat(600), response_format: "wav" },
  { signal: leaving.signal },
);
await left.body.getReader().read();
leaving.abort();

console.log(JSON.stringify({ formats, pieces, bytes, types, models, error }));
