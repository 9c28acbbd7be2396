"use strict";

const element = document.getElementById("swagger-ui");
SwaggerUIBundle({ domNode: element, url: element.dataset.document, deepLinking: true });
