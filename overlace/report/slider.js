// The slider of a plan: how many of its steps, what they leave of the cost, which they are.
for (const slide of document.querySelectorAll(".slide")) {
  const left = slide.dataset.left.split(" ").map(Number), costs = slide.dataset.costs.split("|");
  const range = slide.querySelector("input"), said = slide.querySelector(".slid"), mark = slide.querySelector(".mark");
  const points = slide.querySelector(".curve").getAttribute("points").split(" ").map((p) => p.split(","));
  const rows = slide.closest(".plan").querySelectorAll(".steps tbody tr");
  const show = () => {
    const k = Number(range.value);
    mark.setAttribute("cx", points[k][0]);
    mark.setAttribute("cy", points[k][1]);
    said.textContent = "After " + k + (k === 1 ? " step" : " steps") + ": own cost " + costs[0] + " → " + costs[k] +
      " (" + (100 * (left[k] - 1)).toFixed(1) + " %)";
    rows.forEach((row, i) => { row.hidden = i >= k; });
  };
  range.addEventListener("input", show);
  show();
}
