// Asks for a token, checks it, and keeps it for this tab.

import { Api, session } from "../api.js";
import { h, render } from "../dom.js";
import { trouble, words } from "../parts.js";

export function signInView(kind, done) {
    if (kind === "key") {
        return h(
            "section",
            { class: "card sign-in", key: "sign-in" },
            h("h1", null, "The key is missing"),
            h(
                "p",
                null,
                words(
                    "Open the address that `dure dashboard` printed: the key is behind the # in it.",
                ),
            ),
        );
    }
    return h("section", {
        class: "card sign-in",
        key: "sign-in",
        own: true,
        made: (node) => form(node, done),
    });
}

function form(node, done) {
    let token = "";
    let failed = null;
    let busy = false;
    const draw = () =>
        render(
            node,
            h("h1", null, "Sign in"),
            h(
                "p",
                { class: "hint" },
                words(
                    "With a token of this centre: `dure token create` makes one, the first is in the server's file `admin-token`.",
                ),
            ),
            h(
                "form",
                { onsubmit: submit },
                h(
                    "label",
                    { class: "field" },
                    h("span", null, "Token"),
                    h("input", {
                        type: "password",
                        name: "token",
                        autocomplete: "off",
                        spellcheck: "false",
                        required: true,
                        "aria-describedby": failed ? "sign-in-failed" : null,
                        oninput: (event) => {
                            token = event.target.value.trim();
                        },
                    }),
                ),
                failed ? h("div", { id: "sign-in-failed" }, trouble(failed)) : null,
                h(
                    "button",
                    { type: "submit", class: "button primary", disabled: busy },
                    busy ? "Signing in…" : "Sign in",
                ),
            ),
            h(
                "p",
                { class: "hint" },
                "It is kept for this tab alone and forgotten when the tab is closed.",
            ),
        );
    const submit = async (event) => {
        event.preventDefault();
        busy = true;
        failed = null;
        draw();
        session.secret = token;
        try {
            await new Api("").get("/v1/whoami");
            done(token);
            return;
        } catch (error) {
            failed = error;
            session.secret = "";
        }
        busy = false;
        draw();
        node.querySelector("input").focus();
    };
    draw();
    queueMicrotask(() => node.querySelector("input")?.focus());
}
