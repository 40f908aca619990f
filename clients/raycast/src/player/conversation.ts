/** A connection to the player or the engine: requests, and their answers in time. */

import WebSocket from "ws";
import { Failure, notAnswering, notRunning } from "./failure";
import { type Answer, decode, encode, PROTOCOL, type Received, type Refusal } from "./messages";
import type { Request } from "./messages";
import type { Access } from "./whereabouts";

/** How long who pressed a key waits. */
export interface Patience {
  /** For a connection, and with it for every answer that the player gives by itself. */
  quickMs: number;
  /** For an answer for which the player asks the engine; the player itself waits 10 s for that. */
  engineMs: number;
}

/** With what it takes to show a message, who pressed a key knows within half a second. */
export const PATIENCE: Patience = { quickMs: 400, engineMs: 12_000 };

/** More than any message has. */
const MAX_BYTES = 1 << 20;

type Kind = Answer["type"];
type AnswerOf<K extends Kind> = Extract<Answer, { type: K }>;

interface Asked {
  kind: Kind;
  resolve: (answer: Answer) => void;
  reject: (failure: Failure) => void;
}

/** An open connection; see `converse`. */
export class Conversation {
  private readonly asked = new Map<string, Asked>();
  private names = 0;
  private over?: Failure;

  constructor(
    private readonly socket: WebSocket,
    private readonly access: Access,
    private readonly until: number,
    private readonly patience: Patience,
  ) {}

  /**
   * The answer to a request; requests that are asked together are carried out in their order.
   *
   * Throws a `Failure` if it is refused, or not answered in the rest of the quick time or, where
   * the player has to ask the engine (`slow`), in the time of that.
   */
  async ask<K extends Kind>(
    request: Request,
    kind: K,
    { slow = false }: { slow?: boolean } = {},
  ): Promise<AnswerOf<K>> {
    if (this.over) throw this.over;
    const id = `raycast-${++this.names}`;
    const limit = slow ? this.patience.engineMs : this.until - Date.now();
    const answer = new Promise<Answer>((resolve, reject) => {
      this.asked.set(id, { kind, resolve, reject });
    });
    this.socket.send(encode(request, id));
    try {
      return (await within(answer, limit, () =>
        notAnswering(slow ? "engine" : this.access.role),
      )) as AnswerOf<K>;
    } finally {
      this.asked.delete(id);
    }
  }

  /** Takes a message that came. */
  received(message: Received): void {
    if (message.type === "error" && (message as unknown as Refusal).fatal) {
      this.end(refusal(message as unknown as Refusal));
      return;
    }
    const asked = this.asked.get(message.reply_to ?? "");
    if (!asked) return;
    if (message.type === "error") asked.reject(refusal(message as unknown as Refusal));
    else if (message.type === asked.kind) asked.resolve(message as Answer);
  }

  /** Nothing more will come. */
  end(failure: Failure): void {
    this.over ??= failure;
    for (const { reject } of this.asked.values()) reject(this.over);
  }
}

/**
 * Connects, has `talk` talk, and says goodbye, whatever happens.
 *
 * Throws a `Failure` if nobody lets us in within the quick time, and what `talk` throws.
 */
export async function converse<T>(
  access: Access,
  talk: (conversation: Conversation) => Promise<T>,
  patience: Patience = PATIENCE,
): Promise<T> {
  const until = Date.now() + patience.quickMs;
  const socket = new WebSocket(access.url, [PROTOCOL], {
    headers: { Authorization: `Bearer ${access.token}` },
    perMessageDeflate: false,
    maxPayload: MAX_BYTES,
  });
  const conversation = new Conversation(socket, access, until, patience);
  try {
    await within(ready(socket, access, conversation), patience.quickMs, () =>
      notAnswering(access.role),
    );
    return await talk(conversation);
  } finally {
    goodbye(socket, patience.quickMs);
  }
}

/** Waits for the first message; from then on the conversation hears everything. */
function ready(socket: WebSocket, access: Access, conversation: Conversation): Promise<void> {
  return new Promise((resolve, reject) => {
    const fail = (failure: Failure) => {
      reject(failure);
      conversation.end(failure);
    };
    socket.on("message", (data, isBinary) => {
      const message = isBinary ? undefined : decode(String(data));
      if (message?.type === "ready") resolve();
      else if (message) conversation.received(message);
    });
    socket.on("unexpected-response", (request, response) => {
      response.resume();
      request.destroy();
      fail(turnedAway(access, response.statusCode ?? 0));
    });
    socket.on("error", (error) => fail(unreachable(access, error)));
    socket.on("close", () =>
      fail(
        new Failure(
          `The ${access.role} closed the connection.`,
          "It has too many connections or is stopping: try again in a moment.",
        ),
      ),
    );
  });
}

/** Closes the socket; one whose other end does not say goodbye too is cut off. */
function goodbye(socket: WebSocket, limitMs: number): void {
  if (socket.readyState !== WebSocket.OPEN) {
    socket.terminate();
    return;
  }
  const cut = setTimeout(() => socket.terminate(), limitMs);
  socket.once("close", () => clearTimeout(cut));
  socket.close(1000);
}

/** The outcome of a promise; a failure if there is none in time. */
async function within<T>(promise: Promise<T>, ms: number, late: () => Failure): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(late()), Math.max(ms, 0));
  });
  try {
    return await Promise.race([promise, limit]);
  } finally {
    clearTimeout(timer);
  }
}

// --- why not --------------------------------------------------------------------------------

/** What the other side says is wrong; its sentences are for people. */
function refusal({ code, message }: Refusal): Failure {
  switch (code) {
    case "not_ready":
      return new Failure(message, "Try again in a few seconds, or start the engine.", "start");
    case "unknown_voice":
      return new Failure(message, "Take another one: Choose Voice lists them.", "preferences");
    default:
      return new Failure(message);
  }
}

/** What an answer other than an upgrade means. */
function turnedAway(access: Access, status: number): Failure {
  const name = access.role;
  switch (status) {
    case 401:
      return access.filed
        ? new Failure(
            `The ${name} does not accept the token of the token file.`,
            "It was started with another one: start it anew.",
            "restart",
          )
        : new Failure(
            `The ${name} does not accept the token of the preferences.`,
            "Empty the field to use the token file, or paste the right one.",
            "preferences",
          );
    case 403:
      return new Failure(
        `The ${name} does not let us in by this address.`,
        "Use 127.0.0.1, or put the name into the setting `hosts` of kokoro-live.",
        "preferences",
      );
    case 503:
      return new Failure(
        `The ${name} is busy: it has as many connections as it may have, or is stopping.`,
        "Try again in a moment.",
      );
    default:
      return new Failure(
        `What answers at ${access.url} is no ${name} of kokoro-live (HTTP ${status}).`,
        "Mend the address in the preferences.",
        "preferences",
      );
  }
}

function unreachable(access: Access, error: NodeJS.ErrnoException): Failure {
  if (error.code === "ECONNREFUSED" || error.code === "ECONNRESET") return notRunning(access.role);
  if (error.code === "ENOTFOUND" || error.code === "EAI_AGAIN") {
    return new Failure(
      "The machine of the player address is not known.",
      "Mend the address in the preferences.",
      "preferences",
    );
  }
  return new Failure(
    `The connection to the ${access.role} broke: ${error.code ?? "it does not speak WebSocket"}.`,
    "Try again, and if that does not help, start it anew.",
    "restart",
  );
}
