import { readFileSync } from "node:fs";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";
import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

// Where `crucible serve` listens while one works on the pages with `npm run dev`.
const SERVER = process.env.CRUCIBLE_URL ?? "http://127.0.0.1:7070";

export default defineConfig({
  plugins: [react(), tailwindcss(), modernFontsOnly(), chartFrame(), compressed()],
  resolve: {
    alias: {
      "@": fileURLToPath(new URL("./src", import.meta.url)),
      // Radix holds the page still by it, with a `<style>` that our policy refuses.
      "react-style-singleton": fileURLToPath(
        new URL("./src/ui/scripted-styles.ts", import.meta.url),
      ),
    },
  },
  server: { proxy: { "/api": { target: SERVER, ws: true } } },
  build: {
    outDir: "../src/crucible/server/static",
    emptyOutDir: true,
    target: ["chrome123", "firefox128", "safari17.5"],
    // A data: address would need a wider Content-Security-Policy than a file of our own.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    manifest: true,
  },
});

/** Every browser that we build for reads woff2; KaTeX also names two older forms of each font. */
function modernFontsOnly(): Plugin {
  return {
    name: "modern-fonts-only",
    enforce: "pre",
    transform(code, id) {
      if (!id.includes("katex") || !id.split("?")[0]?.endsWith(".css")) return null;
      return code.replace(/,\s*url\([^)]*\.(?:woff|ttf)\)\s*format\([^)]*\)/g, "");
    },
  };
}

/** Plotly as it comes: it is large, minified already, and loaded by nothing but the frame that draws a chart. */
function chartFrame(): Plugin {
  return {
    name: "chart-frame",
    apply: "build",
    generateBundle() {
      const file = fileURLToPath(
        new URL("./node_modules/plotly.js-strict-dist-min/plotly-strict.min.js", import.meta.url),
      );
      this.emitFile({
        type: "asset",
        fileName: "frames/plotly.min.js",
        source: readFileSync(file),
      });
    },
  };
}

/** Beside each file its smaller forms, so that the server compresses nothing. */
function compressed(): Plugin {
  let directory = "";
  return {
    name: "compressed",
    apply: "build",
    configResolved(config) {
      directory = config.build.outDir;
    },
    async closeBundle() {
      const brotli = promisify(brotliCompress);
      const gzipped = promisify(gzip);
      const names = await readdir(directory, { recursive: true });
      const wanted = names.filter((name) => /\.(?:js|css|html|svg)$/.test(name));
      await Promise.all(
        wanted.map(async (name) => {
          const path = join(directory, name);
          const data = await readFile(path);
          if (data.length < 1024) return;
          const quality = data.length > 1_000_000 ? 6 : 10;
          const params = { [constants.BROTLI_PARAM_QUALITY]: quality };
          await writeFile(`${path}.br`, await brotli(data, { params }));
          await writeFile(`${path}.gz`, await gzipped(data));
        }),
      );
    },
  };
}
