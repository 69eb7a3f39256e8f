// Draws the charts of a report, and shows one row at a time.
const data = (id) => JSON.parse(document.getElementById(id).textContent);
const charts = data("charts-data");
const rows = data("rows-data");
const views = new Map();

// No evaluation of strings: the page forbids it. Styles are those of the page.
const options = {
  renderer: "svg",
  ast: true,
  actions: false,
  defaultStyle: false,
  tooltip: { disableDefaultStyle: true },
};

const slider = document.getElementById("which");

function show(index) {
  const row = rows[index];
  slider.value = index;
  slider.setAttribute("aria-valuetext", row.label);
  document.getElementById("label").textContent = row.label;
  document.getElementById("is-top").hidden = !row.is_top;
  for (const image of document.querySelectorAll("img[data-part]")) {
    image.src = row[image.dataset.part];
    image.alt = `${image.dataset.name} of ${row.label}`;
  }
  const entries = document.querySelector("#entries tbody");
  if (entries) {
    entries.replaceChildren(...row.table.map(line));
  }
  if (views.has("row")) {
    views.get("row").data("row", row.values.map((value) => ({ ...value }))).run();
  }
}

function line(cells) {
  const element = document.createElement("tr");
  for (const cell of cells) {
    element.insertCell().textContent = cell;
  }
  if (element.cells.length) {
    element.cells[0].className = "text";
  }
  return element;
}

slider.addEventListener("input", () => show(Number(slider.value)));

for (const button of document.querySelectorAll("button[data-show]")) {
  button.addEventListener("click", () => {
    show(Number(button.dataset.show));
    slider.scrollIntoView({ block: "center" });
    slider.focus({ preventScroll: true });
  });
}

// In the frame of a notebook, links to sections would load the notebook.
for (const link of document.querySelectorAll("a[href^='#']")) {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    const place = document.querySelector(link.getAttribute("href"));
    place.scrollIntoView();
    place.setAttribute("tabindex", "-1");
    place.focus({ preventScroll: true });
  });
}

for (const choice of document.querySelectorAll("input[name=over]")) {
  choice.addEventListener("change", () => {
    for (const name of ["objective", "stationarity"]) {
      views.get(name)?.signal("over", choice.value).run();
    }
  });
}

async function draw(place) {
  const name = place.dataset.chart;
  const { view } = await vegaEmbed(place, charts[name], options);
  views.set(name, view);
  if (name === "row") {
    show(Number(slider.value));
  }
}

const drawn = Promise.all([...document.querySelectorAll("[data-chart]")].map(draw));
drawn.then(() => document.documentElement.setAttribute("data-drawn", ""));
