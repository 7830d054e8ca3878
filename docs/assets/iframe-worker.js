// Browsers start no worker from a file. Search then runs in a hidden frame of the page in the worker's place.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(address) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      frame.title = "search"
      document.body.append(frame)
      const inside = frame.contentWindow
      const load = url => new Promise((done, failed) => {
        const script = inside.document.createElement("script")
        Object.assign(script, { src: url, onload: done, onerror: failed })
        inside.document.head.append(script)
      })
      inside.importScripts = (...urls) => urls.reduce((before, url) => before.then(() => load(url)), Promise.resolve())
      inside.postMessage = data => {
        const message = new MessageEvent("message", { data })
        this.dispatchEvent(message)
        if (this.onmessage) this.onmessage(message)
      }
      this.frame = frame
      this.ready = load(address)
    }

    postMessage(data) {
      const inside = this.frame.contentWindow
      this.ready.then(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })))
    }

    terminate() {
      this.frame.remove()
    }
  }
}
