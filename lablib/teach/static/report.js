for (const table of document.querySelectorAll("table.sorted")) {
  const body = table.tBodies[0];
  for (const head of table.tHead.rows[0].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const turned = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      const value = (row) => {
        const cell = row.cells[head.cellIndex];
        return cell.dataset.value ?? cell.textContent;
      };
      const rows = [...body.rows].sort((a, b) => {
        const [one, other] = [value(a), value(b)];
        const order = one - other;  // no number where one of them is a text
        const texts = () => one.localeCompare(other, "en", { numeric: true });
        return turned * (isNaN(order) ? texts() : order);
      });
      body.append(...rows);
      for (const each of table.tHead.rows[0].cells) each.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", turned > 0 ? "ascending" : "descending");
    });
  }
}
