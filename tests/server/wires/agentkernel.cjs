// Drives agentkernel's own client: one line of JSON in, `[method, ...arguments]`, one line out.
const { AgentKernel } = require("agentkernel");
const readline = require("node:readline");

const client = new AgentKernel({ timeout: 120000 });
const sessions = {};

async function call([method, ...given]) {
  if (method === "runStream") {
    const events = [];
    for await (const event of client.runStream(...given)) events.push(event);
    return events;
  }
  if (method === "sandbox") {
    sessions[given[0]] = await client.sandbox(...given);
    return given[0];
  }
  if (method === "session") return sessions[given[0]][given[1]](...given.slice(2));
  if (method === "wrongKey") return new AgentKernel({ apiKey: "wrong" }).listSandboxes();
  return client[method](...given);
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    let told;
    try {
      told = { value: (await call(JSON.parse(line))) ?? null };
    } catch (error) {
      told = { error: error.name, message: error.message };
    }
    process.stdout.write(JSON.stringify(told) + "\n");
  }
}

main();
