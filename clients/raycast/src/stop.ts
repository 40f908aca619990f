import { stop } from "./raycast/controls";
import { run } from "./raycast/feedback";

export default async function Stop() {
  await run(stop);
}
