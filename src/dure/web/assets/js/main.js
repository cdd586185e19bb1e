// Starts the dashboard: which levels there are, which page is shown, who has signed in.

import { Api, session } from "./api.js";
import { toast } from "./dialog.js";
import { h, render } from "./dom.js";
import { button, sentence, words } from "./parts.js";
import { fleetPages } from "./pages/fleet.js";
import { KernelPage } from "./pages/kernel.js";
import { NodePage } from "./pages/node.js";
import { signInView } from "./pages/signin.js";

const THEMES = { system: "Auto", light: "Light", dark: "Dark" };

const state = { levels: null, page: null, name: "", trouble: null, signedIn: true };

async function start() {
    session.takeFromAddress();
    addEventListener("hashchange", show);
    addEventListener("signedout", signedOut);
    try {
        const answer = await fetch("levels.json", { cache: "no-store" });
        state.levels = await answer.json();
    } catch {
        state.trouble = { what: "this page's own address does not answer" };
        drawNotice();
        setTimeout(start, 2000);
        return;
    }
    state.trouble = null;
    state.signedIn = state.levels.signIn === "nothing" || session.secret !== "";
    drawNotice();
    show();
}

function pages() {
    const { agent, fleet } = state.levels;
    const found = [];
    if (agent !== null) {
        const api = new Api(agent);
        const may = { changes: state.levels.changes, remedy: state.levels.remedy };
        found.push({
            path: "kernel",
            name: "Kernel",
            make: (ctx) => new KernelPage(ctx, api, may),
        });
        found.push({ path: "node", name: "Node", make: (ctx) => new NodePage(ctx, api, may) });
    }
    if (fleet !== null) found.push(...fleetPages(new Api(fleet)));
    return found;
}

function show() {
    const known = pages();
    const [path, ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
    const chosen = known.find((each) => each.path === path) ?? known[0];
    state.page?.end();
    state.page = null;
    state.name = chosen?.path ?? "";
    state.trouble = null;
    drawNotice();
    drawTop(known);
    const root = document.getElementById("content");
    render(root);
    document.title = chosen ? `${chosen.name} · Dure` : "Dure";
    if (!chosen) return;
    if (!state.signedIn) {
        render(root, signInView(state.levels.signIn, signedIn));
        return;
    }
    state.page = chosen.make({
        root,
        rest,
        told,
        draw: (...children) =>
            state.page !== null &&
            render(root, h("div", { class: "page", key: chosen.path }, children)),
    });
    state.page.begin();
    if (show.again) root.focus({ preventScroll: true });
    show.again = true;
}

function drawTop(known) {
    render(
        document.getElementById("top"),
        h(
            "a",
            { class: "brand", href: `#/${known[0]?.path ?? ""}` },
            h("img", { src: "icon.svg", alt: "", width: 22, height: 22 }),
            "Dure",
        ),
        h(
            "nav",
            { "aria-label": "Levels", class: "levels" },
            known.map((each) =>
                h(
                    "a",
                    {
                        key: each.path,
                        href: `#/${each.path}`,
                        class: each.fleet ? "fleet" : null,
                        "aria-current": each.path === state.name ? "page" : null,
                    },
                    each.name,
                ),
            ),
        ),
        h(
            "div",
            { class: "top-end" },
            h(
                "span",
                { class: "theme" },
                h("label", { class: "unseen", for: "theme" }, "Colours"),
                h(
                    "select",
                    {
                        id: "theme",
                        value: window.dureTheme.get(),
                        onchange: (event) => window.dureTheme.set(event.target.value),
                    },
                    Object.entries(THEMES).map(([key, text]) =>
                        h(
                            "option",
                            { key, value: key, selected: key === window.dureTheme.get() },
                            text,
                        ),
                    ),
                ),
            ),
            state.levels.signIn === "token" && state.signedIn
                ? button("Sign out", () => signedOut({ asked: true }))
                : null,
        ),
    );
}

// What a page could not do, shown until it can again.
function told(error) {
    const before = state.trouble;
    state.trouble = error;
    if (before && !error) toast("Connected again.");
    drawNotice();
}

function drawNotice() {
    const { trouble } = state;
    document.body.classList.toggle("stale", trouble !== null);
    render(
        document.getElementById("notice"),
        trouble
            ? h(
                  "p",
                  null,
                  h("strong", null, sentence(trouble.what ?? trouble.message)),
                  " ",
                  trouble.remedy ? words(sentence(trouble.remedy)) : null,
                  " What is shown may be old; it is tried again by itself.",
              )
            : null,
    );
}

function signedIn(secret) {
    session.keep(secret);
    state.signedIn = true;
    show();
}

function signedOut(event) {
    if (!state.signedIn) return;
    session.keep("");
    state.signedIn = false;
    show();
    if (!event.asked) toast("Sign in again: what you showed is not valid any more.", "bad");
}

start();
