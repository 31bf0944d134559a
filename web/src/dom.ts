// Making elements. Text is always set as text, never as markup: the report's strings are foreign.

type Child = Node | string | null;
type Attributes = Record<string, string | number | null>;

/** An HTML element with attributes (null leaves one out) and children. */
export function h<K extends keyof HTMLElementTagNameMap>(
  name: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(name);
  fill(element, attributes, children);
  return element;
}

/** An SVG element. */
export function svg(name: string, attributes: Attributes = {}, ...children: Child[]): SVGElement {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  fill(element, attributes, children);
  return element;
}

function fill(element: Element, attributes: Attributes, children: Child[]): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null) element.setAttribute(name, String(value));
  }
  element.append(...children.filter((child): child is Node | string => child !== null));
}

/** Where a part of the page stands: on its own, or inside a cell of a study. */
export interface Place {
  /** Goes before every id, so that cells do not share them. */
  prefix: string;
  heading: "h2" | "h3";
}

export const PAGE: Place = { prefix: "", heading: "h2" };

/** A titled section of the page. */
export function section(
  place: Place,
  id: string,
  title: string,
  ...children: Child[]
): HTMLElement {
  const own = `${place.prefix}${id}`;
  return h(
    "section",
    { id: own, "aria-labelledby": `${own}-title` },
    h(place.heading, { id: `${own}-title` }, title),
    ...children,
  );
}

/** Calls `draw` with the width of `element` now and whenever it changes. */
export function onWidth(element: HTMLElement, draw: (width: number) => void): void {
  let drawn = 0;
  const observer = new ResizeObserver((entries) => {
    const width = Math.floor(entries[0]?.contentRect.width ?? 0);
    if (width > 0 && width !== drawn) {
      drawn = width;
      draw(width);
    }
  });
  observer.observe(element);
}
