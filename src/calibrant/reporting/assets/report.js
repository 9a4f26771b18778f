(function () {
  "use strict";
  function byId(name) { return document.getElementById(name); }
  function each(selector, act) { Array.prototype.forEach.call(document.querySelectorAll(selector), act); }
  function copied(button) {
    var words = button.textContent;
    button.textContent = "Copied";
    setTimeout(function () { button.textContent = words; }, 1500);
  }
  function select(node) {
    var range = document.createRange(), chosen = getSelection();
    range.selectNodeContents(node);
    chosen.removeAllRanges();
    chosen.addRange(range);
    document.execCommand("copy");
  }
  each("[data-copy]", function (button) {
    button.hidden = false;
    button.addEventListener("click", function () {
      var node = byId(button.dataset.copy);
      var done = function () { copied(button); }, other = function () { select(node); done(); };
      if (navigator.clipboard) navigator.clipboard.writeText(node.innerText).then(done, other);
      else other();
    });
  });
  each("[data-print]", function (button) {
    button.hidden = false;
    button.addEventListener("click", function () { print(); });
  });
  if (!byId("cells")) return;
  var data = JSON.parse(byId("cells").textContent), GRID = 240;
  var svg = byId("reliability"), view = byId("view"), pick = byId("class"), slider = byId("bins"), curve = byId("isotonic");
  var showAfter = data.after.length > 0, LEFT = 52, TOP = 10, SIZE = 320, NS = "http://www.w3.org/2000/svg", layer = null;
  var odds = byId("odds"), END = 0.001;
  function at(v) {
    if (!odds.checked) return v;
    v = Math.min(1 - END, Math.max(END, v));
    return 0.5 + 0.5 * Math.log(v / (1 - v)) / Math.log((1 - END) / END);
  }
  function X(v) { return LEFT + SIZE * at(v); }
  function Y(v) { return TOP + SIZE * (1 - at(v)); }
  function el(name, attrs, parent, text) {
    var node = document.createElementNS(NS, name);
    for (var key in attrs) node.setAttribute(key, attrs[key]);
    if (text) node.textContent = text;
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
  function wilson(p, n) {
    var z = 1.959964, c = p + z * z / (2 * n), h = z * Math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)), d = 1 + z * z / n;
    return [Math.max(0, (c - h) / d), Math.min(1, (c + h) / d)];
  }
  function band(b) {
    var s = b.s / b.w, n = b.w, half = 1.96 * Math.sqrt(b.v) / n;
    if (n > 100 || n !== Math.round(n) || s <= 0 || s >= 1) return [Math.max(0, s - half), Math.min(1, s + half)];
    var chance = Math.pow(1 - s, n), reached = 0, low = -1;
    for (var k = 0; k <= n; k++) {
      reached += chance;
      if (low < 0 && reached >= 0.025) low = k;
      if (reached >= 0.975) return [low / n, k / n];
      chance *= (n - k) / (k + 1) * s / (1 - s);
    }
    return [low / n, 1];
  }
  function isotonic(cells) {
    var blocks = [];
    for (var i = 0; i < cells.cell.length; i++) {
      blocks.push({ w: cells.w[i], t: cells.t[i], lo: cells.s[i] / cells.w[i], hi: cells.s[i] / cells.w[i] });
      while (blocks.length > 1) {
        var b = blocks[blocks.length - 1], a = blocks[blocks.length - 2];
        if (a.t / a.w < b.t / b.w) break;
        blocks.pop();
        a.w += b.w; a.t += b.t; a.hi = b.hi;
      }
    }
    return blocks;
  }
  function group(n) { return Math.round(n).toString().replace(/\B(?=(\d{3})+(?!\d))/g, ","); }
  function pct(v) { return (100 * v).toFixed(1); }
  function dots(bins, parent) {
    var most = Math.max.apply(null, bins.map(function (b) { return b.w; }));
    bins.forEach(function (b) {
      if (!b.w) return;
      var s = b.s / b.w, t = b.t / b.w, kind = t < s ? "too high" : "too low", span = wilson(t, b.w);
      var label = "says " + pct(s) + "%, happens " + pct(t) + "% [" + pct(span[0]) + ", " + pct(span[1]) + "] (" + group(b.w) +
        " rows, " + kind + " by " + pct(Math.abs(t - s)) + " points)";
      var g = el("g", { "class": "bin", tabindex: 0, role: "img", "aria-label": label }, parent);
      el("title", {}, g, label);
      el("line", { x1: X(s), x2: X(s), y1: Y(s), y2: Y(t), "class": "gap" }, g);
      el("line", { x1: X(s), x2: X(s), y1: Y(span[0]), y2: Y(span[1]), "class": "wilson" }, g);
      el("circle", { cx: X(s), cy: Y(t), r: 2.5 + 5.5 * Math.sqrt(b.w / most), "class": "dot" }, g);
    });
  }
  function draw() {
    var oneClass = view.value === "class", m = data.bins[+slider.value], chosen = +(oneClass ? pick : view).value;
    if (pick) pick.disabled = !oneClass;
    var before = data.views[chosen], after = showAfter ? data.after[chosen] : null, cells = after || before, main = rebin(cells, m);
    if (!layer) {
      Array.prototype.slice.call(svg.querySelectorAll(".drawn")).forEach(function (n) { n.remove(); });
      layer = el("g", { "class": "live" }, svg);
    }
    layer.textContent = "";
    svg.classList.toggle("odds", odds.checked);
    svg.classList.toggle("repaired", Boolean(after));
    if (odds.checked) [0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999].forEach(function (v) {
      el("line", { x1: X(v), x2: X(v), y1: TOP, y2: TOP + SIZE, "class": "grid" }, layer);
      el("line", { x1: LEFT, x2: LEFT + SIZE, y1: Y(v), y2: Y(v), "class": "grid" }, layer);
      el("text", { x: X(v), y: TOP + SIZE + 14, "class": "tick", "text-anchor": "middle" }, layer, +(100 * v).toFixed(1));
      el("text", { x: LEFT - 6, y: Y(v) + 4, "class": "tick", "text-anchor": "end" }, layer, +(100 * v).toFixed(1));
    });
    var up = [], down = [], most = Math.max.apply(null, main.map(function (b) { return b.w; }));
    main.forEach(function (b, i) {
      if (!b.w) return;
      var s = b.s / b.w, span = band(b), h = 36 * b.w / most;
      up.push(X(s) + "," + Y(span[1])); down.unshift(X(s) + "," + Y(span[0]));
      el("rect", { x: X(i / m) + 0.5, y: 410 - h, width: Math.max(X((i + 1) / m) - X(i / m) - 1, 0.5), height: Math.max(h, 0.5), "class": "count" }, layer);
    });
    if (up.length > 1) el("polygon", { points: up.concat(down).join(" "), "class": "band" }, layer);
    el("line", { x1: X(0), y1: Y(0), x2: X(1), y2: Y(1), "class": "diagonal" }, layer);
    if (after) dots(rebin(before, m), el("g", { "class": "before" }, layer));
    if (curve.checked) {
      var steps = [];
      isotonic(cells).forEach(function (b) { steps.push(X(b.lo) + "," + Y(b.t / b.w), X(b.hi) + "," + Y(b.t / b.w)); });
      el("polyline", { points: steps.join(" "), fill: "none", "class": "curve isotonic" }, layer);
    }
    dots(main, layer);
    svg.querySelector("title").textContent = "Reliability diagram: " + before.label;
    svg.querySelector("text.axis").textContent = before.label + ", %";
    byId("bincount").textContent = m;
    slider.setAttribute("aria-valuetext", m + " groups");
    var value = error(main), output = byId("ece");
    output.textContent = (100 * value).toFixed(3);
    output.dataset.value = value;
    byId("ecetext").textContent = "Calibration error over " + m + " groups: ";
    byId("ecebefore").textContent = after ? " (before: " + (100 * error(rebin(before, m))).toFixed(3) + "%)" : "";
  }
  view.addEventListener("change", draw);
  if (pick) pick.addEventListener("change", draw);
  slider.addEventListener("input", draw);
  curve.addEventListener("change", draw);
  odds.addEventListener("change", draw);
  var toggle = byId("toggle");
  if (toggle) toggle.addEventListener("click", function () {
    showAfter = !showAfter;
    toggle.setAttribute("aria-pressed", showAfter);
    draw();
  });
  each("[data-needs-script]", function (node) { node.hidden = false; });
  draw();
})();
