/** What can go wrong, as sentences for the person who pressed the key. */

/** What would help, where a click can do it. */
export type Remedy = "start" | "restart" | "preferences";

/**
 * A command could not do what it is for.
 *
 * `message` is one sentence that says what is wrong, `help` another one that says what to do.
 * Neither ever holds spoken text.
 */
export class Failure extends Error {
  constructor(
    message: string,
    readonly help: string = "",
    readonly remedy?: Remedy,
  ) {
    super(message);
    this.name = "Failure";
  }
}

/** Nobody listens where the player, or the engine, is to be. */
export function notRunning(name: "player" | "engine" = "player"): Failure {
  return new Failure(
    `The ${name} is not running.`,
    "Start it with `make up` in the folder of kokoro-live, or for every login with " +
      "`.venv/bin/python -m playerd --install-service`.",
    "start",
  );
}

/** It has not answered within the time that a person waits for a key. */
export function notAnswering(name: "player" | "engine" = "player"): Failure {
  return new Failure(
    `The ${name} does not answer.`,
    "It is busy or hangs: try again, and if that does not help, start it anew.",
    "restart",
  );
}

/** Anything that was thrown, as a failure. What is not ours is not shown: it could quote text. */
export function failureOf(error: unknown): Failure {
  return error instanceof Failure
    ? error
    : new Failure("The command failed by a fault of its own.", "Try again, or report it.");
}
