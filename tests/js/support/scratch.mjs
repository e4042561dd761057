/** Creates a folder for a test file, which is removed after the tests. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";

export function scratchFolder() {
  const folder = mkdtempSync(join(tmpdir(), "zstn-test-"));
  after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
