/** Styles for libraries that would write `<style>` elements, which the page's policy refuses whoever wrote them. */

/** A document like ours, whose style elements and attributes are sheets and properties that scripts set. */
export function documentOfScriptedStyles(): Document {
  return new Proxy(document, {
    get(target, name) {
      if (name === "createElement") return createElement;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/** For what asks the page's own document, whatever it was given: as long as `act` takes. */
export function withScriptedStyles(act: () => void): void {
  document.createElement = createElement as typeof document.createElement;
  try {
    act();
  } finally {
    Reflect.deleteProperty(document, "createElement");
  }
}

function createElement(name: string): HTMLElement {
  if (name.toLowerCase() === "style") return styleElement();
  const element = plainElement(name);
  const set = element.setAttribute.bind(element);
  element.setAttribute = (name, value) => {
    if (name === "style") element.style.cssText = value;
    else set(name, value);
  };
  return element;
}

function plainElement(name: string): HTMLElement {
  return Document.prototype.createElement.call(document, name);
}

/** Holds no text itself. Its rules are gone with it. */
function styleElement(): HTMLElement {
  const element = plainElement("template");
  const sheet = new CSSStyleSheet();
  const remove = element.remove.bind(element);
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  Object.defineProperty(element, "textContent", { set: (css: string) => sheet.replaceSync(css) });
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== sheet);
    remove();
  };
  return element;
}

/** In the place of `react-style-singleton`: our body never scrolls, so that no dialog must hold it still by a style. */
export function styleSingleton(): () => null {
  return () => null;
}
