// @modelcontextprotocol/client 2.x, in the revisions with sessions and in the stateless one.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { check, command, endpoint, headers } from './checks.js';

for (const mode of ['legacy', 'auto']) {
  for (const [label, transport] of [
    [`client${mode}http`, new StreamableHTTPClientTransport(endpoint, { requestInit: { headers } })],
    [`client${mode}stdio`, new StdioClientTransport(command)],
  ]) {
    const client = new Client({ name: 'peer', version: '1.0.0' }, { versionNegotiation: { mode } });
    await client.connect(transport);
    await check(label, client);
  }
}
