import { slower } from "./raycast/controls";
import { run } from "./raycast/feedback";

export default async function Slower() {
  await run(slower);
}
