import { repeatLast } from "./raycast/controls";
import { run } from "./raycast/feedback";

export default async function RepeatLast() {
  await run(repeatLast);
}
