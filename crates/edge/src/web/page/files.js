// Files on the page: choosing and uploading them, and showing those of messages.

/** Most files of one message, and the largest file in bytes. */
const MOST = 10;
const LARGEST = 25 * 1024 * 1024;

/** The files that go with the next message. */
export class Chosen {
  #list;
  #changed;
  #files = [];

  constructor(list, changed) {
    this.#list = list;
    this.#changed = changed;
  }

  get count() {
    return this.#files.length;
  }

  /** Takes the files for a message, and empties the list. */
  take() {
    const taken = this.#files;
    this.clear();
    return taken;
  }

  clear() {
    this.#files = [];
    this.#show();
  }

  /** Uploads files one after the other. Returns what went wrong, or null. */
  async add(files, upload) {
    for (const file of files) {
      if (this.#files.length >= MOST) return `A message has at most ${MOST} files`;
      if (file.size > LARGEST) return `${file.name} is larger than 25 MiB`;
      if (file.size === 0) return `${file.name} is empty`;
      const stored = await upload(file);
      if (!stored) return null;
      this.#files.push(stored);
      this.#show();
    }
    return null;
  }

  #show() {
    this.#list.replaceChildren(
      ...this.#files.map((file) => {
        const item = document.createElement("li");
        item.dataset.testid = "chosen-file";
        const remove = document.createElement("button");
        remove.type = "button";
        remove.className = "link";
        remove.textContent = "Remove";
        remove.addEventListener("click", () => {
          this.#files = this.#files.filter((other) => other !== file);
          this.#show();
        });
        item.append(`${file.filename} (${size(file.size)}) `, remove);
        return item;
      }),
    );
    this.#list.hidden = this.#files.length === 0;
    this.#changed();
  }
}

/** The files of a message as elements: pictures are shown, others are links. */
export function shown(files, url) {
  return files.map((file) => {
    const item = document.createElement("div");
    item.className = "file";
    item.dataset.testid = "file";
    if (file.expired) {
      item.textContent = `${file.filename} (expired)`;
      return item;
    }
    const link = document.createElement("a");
    link.href = url(file.media_id);
    link.rel = "noopener";
    link.target = "_blank";
    link.title = `${file.filename} (${size(file.size)})`;
    if (/^image\/(png|jpeg|gif|webp)$/.test(file.mime)) {
      const picture = document.createElement("img");
      picture.src = link.href;
      picture.alt = file.filename;
      picture.loading = "lazy";
      link.append(picture);
    } else link.textContent = link.title;
    item.append(link);
    return item;
  });
}

function size(bytes) {
  if (bytes < 1024) return `${bytes} bytes`;
  return bytes < 1024 * 1024 ? `${Math.round(bytes / 1024)} KiB` : `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}
