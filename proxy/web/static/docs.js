// Renders /openapi.json. `validatorUrl: null` keeps its URL from being sent to swagger.io.
// An operation's path is a link inside of the button that opens it, which no screen reader can tell:
// the button alone puts the operation into the address too.
const pathsInButtons = () => ({
  wrapComponents: {
    DeepLink: (DeepLink, { React }) => (link) =>
      React.createElement(...(link.path.includes("/") ? ["span", null, link.text] : [DeepLink, link])),
  },
});

SwaggerUIBundle({
  plugins: [pathsInButtons],
  url: "/openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  showExtensions: true,
  showCommonExtensions: true,
  validatorUrl: null,
});

// Swagger UI has a dark theme, and leaves the choice to the page.
const dark = matchMedia("(prefers-color-scheme: dark)");
const theme = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", theme);
theme();

// What it draws has fields without a name, and examples that scroll and cannot be reached by keyboard.
new MutationObserver(() => {
  for (const field of document.querySelectorAll("tr[data-param-name] select:not([aria-label])"))
    field.setAttribute("aria-label", field.closest("tr").dataset.paramName);
  for (const example of document.querySelectorAll("pre.microlight:not([tabindex])")) example.tabIndex = 0;
}).observe(document.getElementById("swagger-ui"), { childList: true, subtree: true });
