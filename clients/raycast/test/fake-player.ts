/** A player, or something that should be one, in this process. */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { type AddressInfo, createServer as createSocketServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach } from "node:test";
import { type WebSocket, WebSocketServer } from "ws";

/** What a test leaves behind. */
const left: (() => void)[] = [];
afterEach(() => {
  for (const clear of left.splice(0)) clear();
});

export const TOKEN = "a-token-for-tests-and-nothing-else";

export type Message = Record<string, unknown> & { type: string; id: string };

const STATE = { type: "state", state: "idle", queue_len: 0, device: "null", rev: 1 };

/** Answers as a player does that has nothing to do; `answers` are others, by type. */
export class FakePlayer {
  /** What it was asked, without `id`. */
  asked: Record<string, unknown>[] = [];
  /** What it was shown. */
  tokens: (string | undefined)[] = [];
  answers: Record<string, (message: Message) => object | undefined> = {};
  /** What it says first. */
  greeting: object | undefined = { type: "ready", protocol: "kokoro.v1" };
  /** What is done with a connection, after the greeting. */
  onConnection: (socket: WebSocket) => void = () => {};
  readonly #server = new WebSocketServer({ port: 0, host: "127.0.0.1" });

  static async start(): Promise<FakePlayer> {
    const player = new FakePlayer();
    await new Promise((listens) => player.#server.once("listening", listens));
    player.#server.on("connection", (socket, request) => {
      player.tokens.push(request.headers.authorization);
      if (player.greeting) socket.send(JSON.stringify(player.greeting));
      player.onConnection(socket);
      socket.on("message", (data) => player.#received(socket, JSON.parse(String(data))));
    });
    left.push(() => player.stop());
    return player;
  }

  get url(): string {
    return `ws://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`;
  }

  get types(): unknown[] {
    return this.asked.map((message) => message.type);
  }

  /** Says something to everybody. */
  say(message: object) {
    for (const socket of this.#server.clients) socket.send(JSON.stringify(message));
  }

  stop() {
    for (const socket of this.#server.clients) socket.terminate();
    this.#server.close();
  }

  #received(socket: WebSocket, message: Message) {
    const { id, ...rest } = message;
    this.asked.push(rest);
    const answer = (this.answers[message.type] ?? usual)(message);
    if (answer) socket.send(JSON.stringify({ reply_to: id, ...answer }));
  }
}

function usual({ type }: Message): object {
  switch (type) {
    case "status":
      return STATE;
    case "queue":
      return { type: "queue", items: [] };
    case "voices":
      return {
        type: "voices",
        voices: [{ id: "af_heart", name: "Heart (American English, female)", lang: "en-us" }],
      };
    case "speak":
    case "repeat":
      return { type: "ack", item: 1 };
    default:
      return { type: "ack" };
  }
}

/** The state of a player that is speaking. */
export const SPEAKING = { ...STATE, state: "playing", item: 7 };

/** The address of something that turns everybody away with an HTTP status. */
export async function turnsAway(status: number): Promise<string> {
  const server = createServer((_, response) => response.writeHead(status).end());
  server.on("upgrade", (_, socket) => socket.end(`HTTP/1.1 ${status} No\r\n\r\n`));
  return await listening(server);
}

/** The address of something that takes connections, of which it tells, and says nothing. */
export async function saysNothing(connected: () => void = () => {}): Promise<string> {
  return await listening(createSocketServer(connected));
}

/** An address where nobody listens. */
export async function nobody(): Promise<string> {
  const server = createSocketServer();
  const url = await listening(server);
  await new Promise((closed) => server.close(closed));
  return url;
}

async function listening(server: Server): Promise<string> {
  const sockets = new Set<{ destroy: () => void }>();
  server.on("connection", (socket) => sockets.add(socket));
  await new Promise<void>((listens) => server.listen(0, "127.0.0.1", listens));
  left.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `ws://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

/** A data folder with a token, in which `told` is announced. */
export function folder(told?: object, token: string | undefined = TOKEN): string {
  const made = mkdtempSync(join(tmpdir(), "kokoro-live-"));
  left.push(() => rmSync(made, { recursive: true }));
  if (told) writeFileSync(join(made, "kokoro-live.json"), JSON.stringify(told));
  if (token) writeFileSync(join(made, "token"), `${token}\n`);
  return made;
}
