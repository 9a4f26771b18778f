(function () {
  "use strict";
  var data = JSON.parse(document.getElementById("cells").textContent), GRID = 240;
  var svg = document.getElementById("reliability"), view = document.getElementById("view"), slider = document.getElementById("bins");
  var showAfter = data.after.length > 0, LEFT = 52, TOP = 10, SIZE = 320, NS = "http://www.w3.org/2000/svg";
  function X(v) { return LEFT + SIZE * v; }
  function Y(v) { return TOP + SIZE * (1 - v); }
  function el(name, attrs, parent, title) {
    var node = document.createElementNS(NS, name);
    for (var key in attrs) node.setAttribute(key, attrs[key]);
    if (title) { var t = document.createElementNS(NS, "title"); t.textContent = title; node.appendChild(t); }
    parent.appendChild(node);
    return node;
  }
  function rebin(cells, m) {
    var out = [], i;
    for (i = 0; i < m; i++) out.push({ w: 0, s: 0, t: 0, v: 0 });
    for (i = 0; i < cells.cell.length; i++) {
      var bin = out[Math.floor(cells.cell[i] * m / GRID)];
      bin.w += cells.w[i]; bin.s += cells.s[i]; bin.t += cells.t[i]; bin.v += cells.v[i];
    }
    return out;
  }
  function error(bins) {
    var gap = 0, w = 0;
    bins.forEach(function (b) { gap += Math.abs(b.t - b.s); w += b.w; });
    return gap / w;
  }
  function group(n) { return Math.round(n).toString().replace(/\B(?=(\d{3})+(?!\d))/g, " "); }
  function dots(bins, parent) {
    var most = Math.max.apply(null, bins.map(function (b) { return b.w; }));
    bins.forEach(function (b) {
      if (!b.w) return;
      var s = b.s / b.w, t = b.t / b.w, kind = t < s ? "over" : "under";
      el("line", { x1: X(s), x2: X(s), y1: Y(s), y2: Y(t), "class": "gap " + kind }, parent);
      el("circle", { cx: X(s), cy: Y(t), r: 2.5 + 5.5 * Math.sqrt(b.w / most), "class": "dot " + kind, tabindex: 0 }, parent,
        "says " + (100 * s).toFixed(1) + " %, happens " + (100 * t).toFixed(1) + " % (" + group(b.w) + " rows, " + kind +
        "-confident by " + (100 * Math.abs(t - s)).toFixed(1) + " points)");
    });
  }
  function draw() {
    var m = data.bins[+slider.value], at = +view.value, before = data.views[at], after = showAfter ? data.after[at] : null;
    var main = rebin(after || before, m), layer = svg.querySelector("g.live");
    if (!layer) {
      Array.prototype.slice.call(svg.querySelectorAll(".band,.gap,.dot,.count,g.before")).forEach(function (n) { n.remove(); });
      layer = el("g", { "class": "live" }, svg);
    }
    layer.textContent = "";
    var up = [], down = [], most = Math.max.apply(null, main.map(function (b) { return b.w; }));
    main.forEach(function (b, i) {
      if (!b.w) return;
      var s = b.s / b.w, half = 1.96 * Math.sqrt(b.v) / b.w, h = 36 * b.w / most;
      up.push(X(s) + "," + Y(Math.min(1, s + half))); down.unshift(X(s) + "," + Y(Math.max(0, s - half)));
      el("rect", { x: X(i / m) + 0.5, y: 400 - h, width: Math.max(SIZE / m - 1, 0.5), height: Math.max(h, 0.5), "class": "count" }, layer);
    });
    if (up.length > 1) el("polygon", { points: up.concat(down).join(" "), "class": "band" }, layer);
    if (after) dots(rebin(before, m), el("g", { "class": "before" }, layer));
    dots(main, layer);
    var axis = svg.querySelector("text.axis");
    if (axis) axis.textContent = before.label + ", %";
    document.getElementById("bincount").textContent = m;
    var text = "error over " + m + " bins: ", value = error(main);
    document.getElementById("ece").textContent = (100 * value).toFixed(3);
    document.getElementById("ece").dataset.value = value;
    document.getElementById("ecetext").textContent = text;
  }
  view.addEventListener("change", draw);
  slider.addEventListener("input", draw);
  var toggle = document.getElementById("toggle");
  if (toggle) toggle.addEventListener("click", function () {
    showAfter = !showAfter;
    toggle.setAttribute("aria-pressed", showAfter);
    draw();
  });
  document.querySelectorAll("table.sortable").forEach(function (table) {
    table.querySelectorAll("th button").forEach(function (button) {
      button.addEventListener("click", function () {
        var th = button.parentNode, at = Array.prototype.indexOf.call(th.parentNode.children, th), down = th.getAttribute("aria-sort") !== "descending";
        table.querySelectorAll("th").forEach(function (other) { other.removeAttribute("aria-sort"); });
        th.setAttribute("aria-sort", down ? "descending" : "ascending");
        var body = table.tBodies[0], rows = Array.prototype.slice.call(body.rows);
        rows.sort(function (a, b) {
          var x = a.cells[at].dataset.value, y = b.cells[at].dataset.value, nx = parseFloat(x), ny = parseFloat(y);
          var order = isNaN(nx) || isNaN(ny) ? String(x).localeCompare(String(y)) : nx - ny;
          return down ? -order : order;
        });
        rows.forEach(function (row) { body.appendChild(row); });
      });
    });
  });
  document.querySelectorAll("[data-needs-script]").forEach(function (node) { node.hidden = false; });
  draw();
})();
