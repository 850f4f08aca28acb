// Uses a sandbox through the unmodified npm package `e2b`, and tells of each verb whether it worked: a line of JSON each.
'use strict'
const { Sandbox } = require('e2b')

const tell = (verb, ok, detail) => console.log(JSON.stringify({ verb, ok, ...detail }))

async function attempt(verb, work, detail = {}) {
  try {
    await work()
    tell(verb, true, detail)
  } catch (error) {
    tell(verb, false, { trace: error.stack })
  }
}

function same(found, wanted) {
  if (JSON.stringify(found) !== JSON.stringify(wanted)) {
    throw new Error(`${JSON.stringify(found)} is not ${JSON.stringify(wanted)}`)
  }
}

async function main() {
  const options = { timeoutMs: 600_000, metadata: { who: 'js' }, envs: { FROM: 'create' } }
  const box = await Sandbox.create(options)
  tell('create', true, { id: box.sandboxId })

  await attempt('connect', async () => {
    same((await Sandbox.connect(box.sandboxId)).sandboxId, box.sandboxId)
  })
  await attempt('info', async () => {
    same((await box.getInfo()).metadata, { who: 'js' })
    same(await box.isRunning(), true)
  })
  await attempt('list', async () => {
    const found = await Sandbox.list({ query: { metadata: { who: 'js' } } }).nextItems()
    same(found.map((one) => one.sandboxId), [box.sandboxId])
  })
  await attempt('timeout', () => box.setTimeout(1_200_000))
  await attempt('commands', async () => {
    const ran = await box.commands.run('echo out; echo err >&2; echo $FROM')
    same([ran.stdout, ran.stderr], ['out\ncreate\n', 'err\n'])
  })
  await attempt('background', async () => {
    const handle = await box.commands.run('cat', { background: true, stdin: true })
    await box.commands.sendStdin(handle.pid, 'x\n')
    same(await handle.kill(), true)
  })
  await attempt('command timeout', async () => {
    const failed = await box.commands.run('sleep 1000', { timeoutMs: 2_000 }).catch((error) => error)
    same(failed.constructor.name, 'TimeoutError')
  })
  await attempt('terminal', async () => {
    let data = ''
    const hear = (bytes) => { data += new TextDecoder().decode(bytes) }
    const terminal = await box.pty.create({ cols: 100, rows: 30, onData: hear })
    await box.pty.sendInput(terminal.pid, new TextEncoder().encode('stty size; exit\n'))
    await terminal.wait().catch(() => {})
    same(data.includes('30 100'), true)
  })
  await attempt('files', async () => {
    await box.files.write('d/a.txt', 'one')
    same(await box.files.read('d/a.txt'), 'one')
    same((await box.files.list('d')).map((entry) => entry.name), ['a.txt'])
    same(await box.files.exists('d/none'), false)
    await box.files.makeDir('m')
    await box.files.rename('d/a.txt', 'd/b.txt')
    await box.files.remove('d/b.txt')
    await box.files.write('dir/b.bin', 'x'.repeat(256))
  })
  await attempt('watch', async () => {
    const names = []
    const handle = await box.files.watchDir('/home/user/m', (event) => names.push(event.name))
    await box.files.write('m/new.txt', 'x')
    for (let n = 0; n < 1200 && !names.includes('new.txt'); n++) {
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    await handle.stop()
    same(names.includes('new.txt'), true)
  })
  await attempt('signed addresses', async () => {
    await box.files.write('s.txt', 'signature')
    const url = await box.downloadUrl('s.txt', { useSignatureExpiration: 600 })
    same(await (await fetch(url)).text(), 'signature')
  })
  await attempt('metrics', async () => {
    same((await box.getMetrics())[0].memTotal > 0, true)
  })
  if (box.updateNetwork) {
    await attempt('network', () => box.updateNetwork({ denyOut: ['0.0.0.0/0'], allowOut: ['example.com'] }))
  } else {
    tell('network', true, { absent: true })
  }
  if (box.createSnapshot) {
    const tag = {}
    await attempt('snapshot', async () => {
      const taken = await box.createSnapshot()
      const restored = await Sandbox.create(taken.snapshotId, { timeoutMs: 300_000 })
      same(await restored.files.read('s.txt'), 'signature')
      await restored.kill()
      await Sandbox.deleteSnapshot(taken.snapshotId)
      tag.tag = taken.snapshotId
    }, tag)
  } else {
    tell('snapshot', true, { absent: true })
  }
  if (box.fork) {
    await attempt('fork', async () => {
      const [copy] = await box.fork()
      same(await copy.files.read('s.txt'), 'signature')
      await copy.kill()
    })
  } else {
    tell('fork', true, { absent: true })
  }
  await attempt('pause', async () => {
    await (box.pause ?? box.betaPause).call(box)
    const again = await Sandbox.connect(box.sandboxId)
    same((await again.commands.run('echo back')).stdout, 'back\n')
  })
  await attempt('kill', async () => {
    await box.kill()
    same(await box.isRunning(), false)
  })
}

main()
