// Terms of the glossary: their meaning, under the mouse and for the keyboard
document.addEventListener("DOMContentLoaded", () => {
  for (const term of document.querySelectorAll("a.term")) {
    new bootstrap.Tooltip(term, { trigger: "hover focus", placement: "bottom", container: "body" });
  }
});

// What is wider than the page says so: on a phone, no scroll bar shows it
document.addEventListener("DOMContentLoaded", () => {
  const output = "div.cell_output .output";
  const wide = `.pst-scrollable-table-container, ${output}, ${output} div[style*="overflow-x"]`;
  for (const box of document.querySelectorAll(wide)) {
    const look = () => box.classList.toggle("cut", box.scrollWidth > box.clientWidth + 1);
    new ResizeObserver(look).observe(box);
  }
});
