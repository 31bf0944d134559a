// Style sheets are bundled by esbuild; to the type checker they are empty modules.
declare module "*.css";
