// Renders /openapi.json. `validatorUrl: null` keeps its URL from being sent to swagger.io.
SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  showExtensions: true,
  showCommonExtensions: true,
  validatorUrl: null,
});
