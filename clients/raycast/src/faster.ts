import { faster } from "./raycast/controls";
import { run } from "./raycast/feedback";

export default async function Faster() {
  await run(faster);
}
