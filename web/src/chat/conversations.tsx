/** The sidebar's list of conversations. */
export function Conversations() {
  return null;
}
