// Eight loops that take one lock in turns, with node's redlock.
//
// Arguments: URL, key, seconds, pause between two attempts in milliseconds or 0 for the default.
// Says `ready`, begins when it is told to, and says of each turn when it was asked for, granted and released.

const Redis = require('ioredis');
const Redlock = require('redlock');

const [url, key, seconds, pause] = process.argv.slice(2);
const client = new Redis(url);
const options = { retryCount: -1 };
if (Number(pause)) {
  Object.assign(options, { retryDelay: Number(pause), retryJitter: 0 });
}
const redlock = new Redlock([client], options);
const now = () => process.hrtime.bigint();
const turns = [];

async function takeTurns(until) {
  while (now() < until) {
    const asked = now();
    const lock = await redlock.lock(key, 10000);
    const granted = now();
    await new Promise((wake) => setTimeout(wake, 1));
    const released = now();
    await lock.unlock();
    turns.push(`${asked} ${granted} ${released}`);
  }
}

async function main() {
  await client.ping();
  console.log('ready');
  await new Promise((told) => process.stdin.once('data', told));
  const until = now() + BigInt(Math.round(Number(seconds) * 1e9));
  await Promise.all(Array.from({ length: 8 }, () => takeTurns(until)));
  process.stdout.write(turns.map((turn) => `${turn}\n`).join(''), () => process.exit(0));
}

main();
