// CUDA C++ highlighted as C++ in JupyterLab: notebook cells whose first line is a magic such as %%exercise, files
// called *.cu and *.cuh, and ```cpp or ```cuda in Markdown. And printed tables keep their columns.
//
// JupyterLab parses every code cell in the kernel's language. An apostrophe in a comment of a kernel is then the start
// of a Python string. The editor follows the MIME type of the cell's model, so a cell that holds CUDA gets another one.
//
// This file is the whole extension. It is what a bundler would make (a module federation container, which JupyterLab
// loads and asks for "./extension"), written by hand: nothing has to be built, and all libraries are JupyterLab's own.
// Whatever fails in here leaves the cells as they are without it.

(() => {
  const NAME = "mobilenetv2-course";
  const FILE = "text/x-cuda"; // the MIME type of a .cu file
  const CELL = "text/x-cuda-cell"; // the MIME type of a cell: the magic line comes first
  const MAGIC = /^\s*%%\w+[^\n]*/;

  // The magics whose cells may be CUDA C++ or Python, and what only CUDA C++ has: a line that begins as a comment or
  // an #include, a qualifier, a semicolon at the end of a line.
  const OURS = /^\s*%%(exercise|engine|cuda)\b/;
  const CUDA = /^\s*\/[/*]|^\s*#\s*(include|define|pragma)\b|\b__(global|device|shared)__\b|\bextern\s+"C"|;\s*$/m;

  // Whether a cell's text is a magic line with CUDA C++ below it. The suffix of a file that the magic names decides.
  function isCuda(text) {
    const magic = MAGIC.exec(text);
    if (!magic) return false;
    const suffix = /\.(cuh?|py)\b/.exec(magic[0]);
    return suffix ? suffix[1] !== "py" : OURS.test(text) && CUDA.test(text.slice(magic[0].length));
  }

  // JupyterLab's own copy of a library, from the scope that the page shares with its extensions.
  async function shared(scope, name) {
    const offers = Object.values(scope[name] ?? {});
    const offer = offers.find((one) => one.loaded) ?? offers[0];
    if (!offer) throw new Error(`${NAME}: JupyterLab shares no ${name}`);
    return (await offer.get())();
  }

  // The C++ parser, to which the magic line is white space of the same length.
  function belowMagic(Parser, inner) {
    return new (class extends Parser {
      createParse(input, fragments, ranges) {
        const magic = MAGIC.exec(input.read(0, Math.min(input.length, 1000)));
        const end = magic ? magic[0].length : 0;
        const blank = (text, from) =>
          text.slice(0, Math.max(0, end - from)).replace(/[^\n]/g, " ") + text.slice(Math.max(0, end - from));
        const below = {
          length: input.length,
          lineChunks: input.lineChunks,
          chunk: (from) => blank(input.chunk(from), from),
          read: (from, to) => blank(input.read(from, to), from),
        };
        return inner.createParse(below, fragments, ranges);
      }
    })();
  }

  function registerLanguages(languages, { Language, LanguageSupport }, { Parser }) {
    const cpp = async () => (await languages.getLanguage("text/x-c++src")).support;
    languages.addLanguage({
      name: "CUDA C++",
      mime: FILE,
      extensions: ["cu", "cuh"],
      alias: ["cuda", "cpp", "cu"],
      load: cpp,
    });
    languages.addLanguage({
      name: "CUDA C++ below a magic",
      mime: CELL,
      load: async () => {
        const { language } = await cpp();
        return new LanguageSupport(new Language(language.data, belowMagic(Parser, language.parser), [], "cpp"));
      },
    });
  }

  // Keep a cell's MIME type right, whatever is typed into it and whenever the notebook sets its kernel's.
  function watchCell(cell) {
    if (cell.type !== "code") return;
    let ours = cell.mimeType; // what the notebook wants it to be
    const update = () => {
      if (cell.mimeType !== CELL) ours = cell.mimeType;
      const wanted = isCuda(cell.sharedModel.getSource()) ? CELL : ours;
      if (cell.mimeType !== wanted) cell.mimeType = wanted;
    };
    cell.contentChanged.connect(update);
    cell.mimeTypeChanged.connect(update);
    update();
  }

  function watchNotebook(notebook) {
    const watched = new WeakSet();
    const watchAll = () => {
      for (const cell of notebook.model?.cells ?? []) {
        if (watched.has(cell)) continue;
        watched.add(cell);
        watchCell(cell);
      }
    };
    const watchModel = () => {
      notebook.model?.cells.changed.connect(watchAll);
      watchAll();
    };
    notebook.modelChanged.connect(watchModel);
    watchModel();
  }

  // JupyterLab breaks printed lines that are too long, within words. A table is read by its columns: long lines scroll.
  function keepLines() {
    const style = document.createElement("style");
    style.textContent =
      ".jp-Notebook .jp-OutputArea-output.jp-RenderedText pre" +
      " { white-space: pre; word-break: normal; overflow-x: auto; }";
    document.head.append(style);
  }

  async function extension(scope) {
    const [notebook, codemirror, language, lezer] = await Promise.all(
      ["@jupyterlab/notebook", "@jupyterlab/codemirror", "@codemirror/language", "@lezer/common"].map((name) =>
        shared(scope, name),
      ),
    );
    return {
      id: `${NAME}:cuda`,
      description: "Highlights CUDA C++ in the cells of exercises, in .cu files and in Markdown.",
      autoStart: true,
      requires: [notebook.INotebookTracker, codemirror.IEditorLanguageRegistry],
      activate: (app, tracker, languages) => {
        keepLines();
        registerLanguages(languages, language, lezer);
        tracker.forEach((panel) => watchNotebook(panel.content));
        tracker.widgetAdded.connect((sender, panel) => watchNotebook(panel.content));
      },
    };
  }

  let scope = {};
  window._JUPYTERLAB = window._JUPYTERLAB ?? {};
  window._JUPYTERLAB[NAME] = {
    init: (sharedScope) => {
      scope = sharedScope;
    },
    get: async () => {
      let plugins = [];
      try {
        plugins = [await extension(scope)];
      } catch (error) {
        console.warn(error);
      }
      return () => ({ __esModule: true, default: plugins });
    },
  };
})();
