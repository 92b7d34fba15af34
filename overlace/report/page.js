// Plans: a slider over the steps, what was measured then, and a table of the steps to sort and to search.
for (const plan of document.querySelectorAll(".plan")) {
  const slide = document.querySelector(`.slide[data-plan="${plan.id}"]`);
  const body = plan.querySelector(".steps tbody"), rows = body ? [...body.rows] : [];
  const find = plan.querySelector(".find"), input = find && find.querySelector("input");
  const numbers = rows.map(row => Number(row.cells[0].textContent)), texts = rows.map(row => row.textContent.toLowerCase());
  let last = Infinity;
  const filter = () => {
    const wanted = input ? input.value.trim().toLowerCase() : "";
    let shown = 0;
    rows.forEach((row, i) => {
      row.hidden = numbers[i] > last || !texts[i].includes(wanted);
      shown += !row.hidden;
    });
    if (find) find.querySelector("output").textContent = `${shown} of ${rows.length}`;
  };
  if (find) {
    find.hidden = false;
    input.addEventListener("input", filter);
    const heads = [...plan.querySelectorAll(".steps thead th")];
    heads.forEach((head, column) => {
      const button = document.createElement("button"), order = rows.map((_, i) => i);
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      const key = row => {
        const cell = row.cells[column], value = cell.querySelector("data");
        return value ? Number(value.value) : column ? cell.textContent : Number(cell.textContent);
      };
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending", keys = rows.map(key);
        heads.forEach(each => each.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        order.sort((i, j) => (keys[i] < keys[j] ? -1 : keys[i] > keys[j] ? 1 : i - j) * (down ? -1 : 1));
        body.append(...order.map(i => rows[i]));
      });
    });
  }
  if (slide) {
    const stops = JSON.parse(slide.dataset.stops), range = slide.querySelector("input");
    const sentence = slide.querySelector(".stop-text"), figures = plan.querySelectorAll(".stop");
    const mark = slide.querySelector(".here_marks path"), line = slide.querySelector(".curve_marks path");
    const points = line ? line.getAttribute("d").slice(1).split("L") : [];
    const show = () => {
      const at = Number(range.value), [steps, text] = stops[at];
      if (mark) mark.setAttribute("transform", `translate(${points[at]})`);
      sentence.textContent = text;
      range.setAttribute("aria-valuetext", steps + (steps === 1 ? " step" : " steps"));
      figures.forEach((each, i) => { each.hidden = i !== at; });
      last = at === stops.length - 1 ? Infinity : steps;
      filter();
    };
    slide.querySelector("label").hidden = false;
    range.addEventListener("input", show);
    show();
  } else {
    filter();
  }
}
