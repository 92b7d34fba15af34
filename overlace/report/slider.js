// The slider of a plan: after how many of its steps, what was measured then, which steps they are.
for (const slide of document.querySelectorAll(".slide")) {
  const stops = JSON.parse(slide.dataset.stops);
  const range = slide.querySelector("input"), said = slide.querySelector(".slid"), mark = slide.querySelector(".mark");
  const points = slide.querySelector(".curve").getAttribute("points").split(" ").map((p) => p.split(","));
  const figures = slide.querySelectorAll(".stop"), rows = slide.closest(".plan").querySelectorAll(".steps tbody tr");
  const show = () => {
    const at = Number(range.value), [steps, text] = stops[at];
    mark.setAttribute("cx", points[at][0]);
    mark.setAttribute("cy", points[at][1]);
    said.textContent = text;
    range.setAttribute("aria-valuetext", steps + (steps === 1 ? " step" : " steps"));
    figures.forEach((each, i) => { each.hidden = i !== at; });
    rows.forEach((row, i) => { row.hidden = i >= steps; });
  };
  range.addEventListener("input", show);
  show();
}
