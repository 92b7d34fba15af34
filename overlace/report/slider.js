// The slider of a plan: after how many of its steps, what was measured then, which steps they are.
for (const slide of document.querySelectorAll(".slide")) {
  const stops = JSON.parse(slide.dataset.stops);
  const range = slide.querySelector("input"), sentence = slide.querySelector(".stop-text");
  const mark = slide.querySelector(".here_marks path"), line = slide.querySelector(".curve_marks path");
  const points = line.getAttribute("d").slice(1).split("L");
  const figures = slide.querySelectorAll(".stop"), rows = slide.closest(".plan").querySelectorAll(".steps tbody tr");
  const show = () => {
    const at = Number(range.value), [steps, text] = stops[at];
    mark.setAttribute("transform", `translate(${points[at]})`);
    sentence.textContent = text;
    range.setAttribute("aria-valuetext", steps + (steps === 1 ? " step" : " steps"));
    figures.forEach((each, i) => { each.hidden = i !== at; });
    rows.forEach((row, i) => { row.hidden = i >= steps; });
  };
  range.addEventListener("input", show);
  show();
}
