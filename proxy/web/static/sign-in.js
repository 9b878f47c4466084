// A sign-in link has its secret behind the #, which browsers send to no server and no log sees.
// Without this script, paste what is behind the # into the field.
(() => {
  "use strict";
  const field = document.getElementById("token");

  function use() {
    const secret = location.hash.slice(1);
    if (!secret || !field) return;
    history.replaceState(null, "", location.pathname + location.search);
    field.value = secret;
    field.form.requestSubmit();
  }

  if (!document.getElementById("wrong")) use();
  addEventListener("hashchange", use);  // a link that is opened on this very page loads nothing
})();
