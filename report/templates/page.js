// Folding sections open when an anchor inside them is asked for, and all of them for printing; #verdict=... shows the
// claims with one verdict; curves answer to a pointer.
const openAround = target => { for (let e = target; e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true; };
const choose = verdict => {
  const claims = [...document.querySelectorAll(".claim")];
  claims.forEach(claim => { claim.hidden = verdict && !claim.dataset.verdicts.split("|").includes(verdict); });
  document.querySelectorAll(".group").forEach(group => { group.hidden = !group.querySelector(".claim:not([hidden])"); });
  document.querySelectorAll('a[href^="#verdict="]').forEach(a => {
    if (verdict && a.getAttribute("href") === `#verdict=${encodeURIComponent(verdict)}`) a.setAttribute("aria-current", "true");
    else a.removeAttribute("aria-current");
  });
  const left = claims.filter(claim => !claim.hidden).length;
  document.getElementById("shown").textContent = verdict ? `${left} of ${claims.length} claims: ${verdict}` : "";
};
const arrive = () => {
  const asked = decodeURIComponent(location.hash).match(/^#verdict=(.*)$/);
  choose(asked && asked[1] !== "all" ? asked[1] : "");
  if (asked) {
    const section = document.getElementById("claims");
    section.querySelector(":scope > details").open = true; section.scrollIntoView();
    return;
  }
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  openAround(target); target.querySelector(":scope > details")?.setAttribute("open", ""); target.scrollIntoView();
  if (!matchMedia("(min-width: 70rem)").matches) document.querySelector("nav details").open = false;
};
if (matchMedia("(min-width: 70rem)").matches) document.querySelector("nav details").open = true;
addEventListener("hashchange", arrive); arrive();
document.querySelectorAll('nav a[href^="#"]').forEach(a => a.addEventListener("click", () => setTimeout(arrive)));
addEventListener("beforeprint", () => document.querySelectorAll("main > section > details").forEach(d => { d.open = true; }));
document.querySelectorAll(".picture").forEach(p => {
  p.addEventListener("click", () => p.classList.toggle("whole"));
  p.addEventListener("keydown", event => { if (event.key === "Enter") p.classList.toggle("whole"); });
});

const tip = document.getElementById("tip");
const points = new WeakMap();
const placesOf = steps => {
  const places = [];
  for (let k = 0, x = 0, y = 0; k < steps.length; k += 2) places.push([x += steps[k], y += steps[k + 1]]);
  return places;
};
const pointsOf = svg => {
  if (!points.has(svg)) points.set(svg, [...svg.querySelectorAll("path[data-seed]")].map(path =>
    ({ path, places: placesOf(path.getAttribute("d").match(/-?\d+/g).map(Number)) })));
  return points.get(svg);
};
const ask = event => {
  const svg = event.currentTarget, box = svg.getBoundingClientRect();
  const x = (event.clientX - box.left) / box.width * 600, y = (event.clientY - box.top) / box.height * 240;
  let least = Infinity, found;
  for (const { path, places } of pointsOf(svg)) for (const [px, py] of places) {
    const away = (px - x) ** 2 + ((py - y) * 2) ** 2;
    if (away < least) { least = away; found = { path, px, py }; }
  }
  svg.querySelector(".shown")?.classList.remove("shown");
  if (!found) return;
  found.path.classList.add("shown");
  const { epochs, low, high } = svg.dataset;
  const epoch = Math.round(found.px / 600 * epochs), loss = 10 ** (+low + (1 - found.py / 240) * (high - low));
  const task = found.path.dataset.task ? `, ${found.path.dataset.task}` : "";
  tip.textContent = `seed ${found.path.dataset.seed}${task}, epoch ${epoch.toLocaleString("en")}, loss ${loss.toPrecision(2)}`;
  tip.hidden = false;
  tip.style.left = `${Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 4)}px`;
  tip.style.top = `${Math.max(event.clientY - tip.offsetHeight - 10, 4)}px`;
};
document.querySelectorAll("svg.curves").forEach(svg => {
  svg.addEventListener("pointermove", ask); svg.addEventListener("pointerdown", ask);
  svg.addEventListener("pointerleave", () => { tip.hidden = true; svg.querySelector(".shown")?.classList.remove("shown"); });
});
