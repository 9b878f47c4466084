// Renders /openapi.json. `validatorUrl: null` keeps its URL from being sent to swagger.io.
SwaggerUIBundle({
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
