// Describes what a part of the page shall be (h) and changes what differs (render): elements that
// stay keep their focus, so that neither keyboards nor screen readers lose their place at an update.

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set(["value", "checked", "disabled", "selected", "indeterminate"]);

export function h(tag, props, ...children) {
    return { tag, props: props ?? {}, children: tidy(children) };
}

export function render(parent, ...children) {
    reconcile(parent, tidy(children), parent.namespaceURI === SVG);
}

function tidy(children) {
    return children
        .flat(Infinity)
        .filter((child) => child !== null && child !== undefined && child !== false && child !== "")
        .map((child) => (typeof child === "object" ? child : String(child)));
}

function reconcile(parent, wanted, svg) {
    const keyed = new Map();
    const loose = [];
    for (const node of parent.childNodes) {
        const key = node.shown?.props?.key;
        if (key === undefined) loose.push(node);
        else keyed.set(key, node);
    }
    let place = parent.firstChild;
    for (const child of wanted) {
        let node = take(child, keyed, loose);
        if (node === null) node = make(child, svg);
        else update(node, child, svg);
        if (node === place) place = place.nextSibling;
        else parent.insertBefore(node, place);
    }
    for (const node of [...loose, ...keyed.values()]) node.remove();
}

function take(child, keyed, loose) {
    if (typeof child !== "string" && child.props.key !== undefined) {
        const node = keyed.get(child.props.key);
        if (node === undefined || node.shown.tag !== child.tag) return null;
        keyed.delete(child.props.key);
        return node;
    }
    const index = loose.findIndex((node) =>
        typeof child === "string"
            ? node.nodeType === Node.TEXT_NODE
            : node.shown?.tag === child.tag,
    );
    return index < 0 ? null : loose.splice(index, 1)[0];
}

function make(child, svg) {
    if (typeof child === "string") return document.createTextNode(child);
    const drawn = svg || child.tag === "svg";
    const node = drawn
        ? document.createElementNS(SVG, child.tag)
        : document.createElement(child.tag);
    node.shown = { tag: child.tag, props: {} };
    reconcile(node, child.children, drawn);
    setProps(node, child.props);
    node.shown = child;
    child.props.made?.(node);
    return node;
}

function update(node, child, svg) {
    if (typeof child === "string") {
        if (node.data !== child) node.data = child;
        return;
    }
    if (!child.props.own) reconcile(node, child.children, svg || child.tag === "svg");
    setProps(node, child.props);
    node.shown = child;
}

function setProps(node, props) {
    const before = node.shown.props;
    for (const name in before) if (!(name in props)) setProp(node, name, null);
    for (const name in props) {
        if (props[name] !== before[name] || PROPERTIES.has(name)) setProp(node, name, props[name]);
    }
}

// `made`, `key` and `own` (its inside is its maker's) are no attributes.
function setProp(node, name, value) {
    if (name === "made" || name === "key" || name === "own") return;
    if (name.startsWith("on")) return listen(node, name.slice(2), value);
    if (name === "style") return setStyle(node, value ?? {});
    if (PROPERTIES.has(name)) {
        if (node[name] !== (value ?? false)) node[name] = value ?? (name === "value" ? "" : false);
        return;
    }
    if (value === null || value === undefined || value === false) node.removeAttribute(name);
    else node.setAttribute(name, value === true ? "" : value);
}

function listen(node, event, handler) {
    node.heard ??= {};
    if (!(event in node.heard)) node.addEventListener(event, (said) => node.heard[event]?.(said));
    node.heard[event] = handler;
}

function setStyle(node, wanted) {
    const before = node.styled ?? {};
    for (const name in before) if (!(name in wanted)) node.style.removeProperty(name);
    for (const name in wanted) {
        if (before[name] !== wanted[name]) node.style.setProperty(name, wanted[name]);
    }
    node.styled = wanted;
}
